"""DaemonSets, builds and modules that the drivers need, for the kernels that the nodes run."""
