# The host's files, below the folder `host`: no cards yet. The scripts of cards add them.
mkdir -p "$host/sys/bus/pci/devices" "$host/sys/class" "$host/sys/devices" "$host/sys/module" "$host/sys/fs/cgroup" "$host/dev" "$host/etc/accelkit" "$host/usr/lib64"
cp /etc/machine-id /etc/os-release "$host/etc/"
