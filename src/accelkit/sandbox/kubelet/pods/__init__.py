"""The simulated kubelet's pods and containers."""
