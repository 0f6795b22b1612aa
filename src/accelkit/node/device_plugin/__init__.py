"""Device plugin for the kubelet, with lists of devices, preferred allocations and responses to Allocate."""
