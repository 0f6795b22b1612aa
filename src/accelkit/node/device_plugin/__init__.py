"""Device plugin for the kubelet: lists of devices, preferred allocations, responses to Allocate."""
