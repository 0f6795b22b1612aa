# Two cards that a file lists.
mkdir -p /etc/accelkit
cat > /etc/accelkit/simulated-cards.json <<'JSON'
{"cards": [
  {"id": "sim-0", "model": "sim-16g", "memory_bytes": 17179869184, "index": 0, "numa": 0},
  {"id": "sim-1", "model": "sim-16g", "memory_bytes": 17179869184, "index": 1, "numa": 1}
]}
JSON
for index in 0 1; do
  [ -e "/dev/accelkit$index" ] || mknod -m 0666 "/dev/accelkit$index" c 1 3
done
