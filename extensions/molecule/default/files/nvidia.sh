# Three T4 as sysfs lists them. A stand-in of NVIDIA's library reports their memory, numbers and names.
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
  # This amount differs from that of the table, and is less than that of a simulated card.
  echo "card $bdf uuid=GPU-0000000$minor-0000-4000-8000-000000000000 minor=$minor mig=0 total=16642998272" \
    "reserved=0 used=0 name=Tesla T4" >> "$library.new"
done
mv "$library.new" "$library"
# Containers get the device nodes of the node itself, and the agent looks for them below its root. The nodes must be
# openable, because the check of a share opens them. So they have the numbers of /dev/zero, which exists in every kernel.
# No process keeps /dev/zero open for long, so that no unrelated process is reported on the card.
for folder in /dev "$host/dev"; do
  for minor in 0 1 2; do
    [ -e "$folder/nvidia$minor" ] || mknod -m 0666 "$folder/nvidia$minor" c 1 5
  done
  # The library opens this node, which is /dev/null.
  [ -e "$folder/nvidiactl" ] || mknod -m 0666 "$folder/nvidiactl" c 1 3
done
