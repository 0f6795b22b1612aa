"""The simulated kubelet's device manager and its sockets."""
