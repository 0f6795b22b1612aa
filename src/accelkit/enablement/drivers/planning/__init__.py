"""Which DaemonSets, builds and modules drivers need, by the kernels that the nodes run."""
