# What a host shows, below the folder `host`: nothing yet. The scripts of cards add to it.
mkdir -p "$host/sys/bus/pci/devices" "$host/sys/class" "$host/sys/devices" "$host/sys/module" "$host/sys/fs/cgroup" "$host/dev" "$host/etc/accelkit" "$host/usr/lib64"
cp /etc/machine-id /etc/os-release "$host/etc/"
