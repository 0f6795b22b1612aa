"""Device plugin for the kubelet: lists of devices, preferred allocations, answers to Allocate."""
