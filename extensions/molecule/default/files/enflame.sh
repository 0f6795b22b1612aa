# An L300 as sysfs lists it. Its memory is known only from the administrator's file.
device=$host/sys/devices/pci0000:80/0000:81:00.0
mkdir -p "$device/enflame/gcu0"
echo 0x1e36 > "$device/vendor"
echo 0xc041 > "$device/device"
echo 0x120000 > "$device/class"
echo 1 > "$device/numa_node"
ln -sfn ../../../devices/pci0000:80/0000:81:00.0 "$host/sys/bus/pci/devices/0000:81:00.0"
echo 'cards: {"1e36:c041": {memory: 24GiB}}' > "$host/etc/accelkit/cards.yaml"
# The nodes have the numbers of /dev/full, so that containers can open them.
for folder in /dev "$host/dev"; do
  [ -e "$folder/gcu0" ] || mknod -m 0666 "$folder/gcu0" c 1 7
  [ -e "$folder/gcuctl" ] || mknod -m 0666 "$folder/gcuctl" c 1 7
done
