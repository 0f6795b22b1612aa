# Four cards that a file lists.
mkdir -p /etc/accelkit
cat > /etc/accelkit/simulated-cards.json <<'JSON'
{"cards": [
  {"id": "sim-0", "model": "sim-16g", "memory_bytes": 17179869184, "index": 0, "numa": 0},
  {"id": "sim-1", "model": "sim-16g", "memory_bytes": 17179869184, "index": 1, "numa": 0},
  {"id": "sim-2", "model": "sim-16g", "memory_bytes": 17179869184, "index": 2, "numa": 1},
  {"id": "sim-3", "model": "sim-16g", "memory_bytes": 17179869184, "index": 3, "numa": 1}
]}
JSON
for index in 0 1 2 3; do
  [ -e "/dev/accelkit$index" ] || mknod -m 0666 "/dev/accelkit$index" c 1 3
done
