"""Device plugin for the kubelet: lists of devices, preferred allocations, and responses to Allocate."""
