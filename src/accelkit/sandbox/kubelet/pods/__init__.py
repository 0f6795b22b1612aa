"""The pods and containers of the simulated kubelet."""
