"""The kubelet's device plugin: lists of devices, preferred allocations, answers to Allocate."""
