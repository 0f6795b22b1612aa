# Two T4 as sysfs and the driver show them, mounted over the node's own.
fake=/opt/fake-cards
mkdir -p /etc/accelkit
for minor in 0 1; do
  bdf=0000:0$((minor + 1)):00.0
  device=$fake/pci/pci0000:00/$bdf
  mkdir -p "$device" "$fake/driver/nvidia/gpus/$bdf"
  echo 0x10de > "$device/vendor"
  echo 0x1eb8 > "$device/device"
  echo 0x030200 > "$device/class"
  echo "$minor" > "$device/numa_node"
  ln -sfn "pci0000:00/$bdf" "$fake/pci/$bdf"
  printf 'Model: \t\t Tesla T4\nGPU UUID: \t GPU-0000000%s-0000-4000-8000-000000000000\nDevice Minor: \t %s\n' \
    "$minor" "$minor" > "$fake/driver/nvidia/gpus/$bdf/information"
  [ -e "/dev/nvidia$minor" ] || mknod -m 0666 "/dev/nvidia$minor" c 195 "$minor"
done
[ -e /dev/nvidiactl ] || mknod -m 0666 /dev/nvidiactl c 195 255
mountpoint -q /sys/bus/pci/devices || mount --bind "$fake/pci" /sys/bus/pci/devices
mountpoint -q /proc/driver || mount --bind "$fake/driver" /proc/driver
