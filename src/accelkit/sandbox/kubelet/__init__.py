"""A kubelet with simulated containers. Its device manager and its sockets behave as those of the real kubelet."""

from accelkit.sandbox.kubelet.kubelet import run_node

__all__ = ["run_node"]
