"""DaemonSets, image builds and kernel modules that the drivers need for the kernels of the nodes."""
