"""A kubelet whose containers are simulated, but whose device manager and sockets behave as the real one's."""

from accelkit.sandbox.kubelet.kubelet import run_node

__all__ = ["run_node"]
