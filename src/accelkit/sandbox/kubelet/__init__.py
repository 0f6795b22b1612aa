"""A kubelet with simulated containers. Its device manager and sockets behave like those of a real kubelet."""

from accelkit.sandbox.kubelet.kubelet import run_node

__all__ = ["run_node"]
