"""DaemonSets, builds and modules that drivers need, for the kernels that the nodes run."""
