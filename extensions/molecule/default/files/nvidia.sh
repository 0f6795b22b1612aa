# Three T4 as sysfs shows them, with the memory, numbers and names that a stand-in of NVIDIA's library says they have.
library=$host/usr/lib64/standin-nvml
echo driver 615.71.09 > "$library.new"
for minor in 0 1 2; do
  bdf=0000:0$((minor + 1)):00.0
  device=$host/sys/devices/pci0000:00/$bdf
  mkdir -p "$device"
  echo 0x10de > "$device/vendor"
  echo 0x1eb8 > "$device/device"
  echo 0x030200 > "$device/class"
  echo $((minor % 2)) > "$device/numa_node"
  ln -sfn "../../../devices/pci0000:00/$bdf" "$host/sys/bus/pci/devices/$bdf"
  # Another amount than that of the table, and less than that of a simulated card.
  echo "card $bdf uuid=GPU-0000000$minor-0000-4000-8000-000000000000 minor=$minor mig=0 total=16642998272" \
    "reserved=0 used=0 name=Tesla T4" >> "$library.new"
done
mv "$library.new" "$library"
# Containers are given the node's own device nodes; the agent looks below its root whether they are there. They can be
# opened, as the check of a share does: they have the numbers of devices that every kernel has, of /dev/zero here, which
# no process has open for long, since whoever has it open is shown on the card.
for folder in /dev "$host/dev"; do
  for minor in 0 1 2; do
    [ -e "$folder/nvidia$minor" ] || mknod -m 0666 "$folder/nvidia$minor" c 1 5
  done
  # The library opens this one: /dev/null.
  [ -e "$folder/nvidiactl" ] || mknod -m 0666 "$folder/nvidiactl" c 1 3
done
