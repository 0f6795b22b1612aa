"""The device manager of the simulated kubelet, and its sockets."""
