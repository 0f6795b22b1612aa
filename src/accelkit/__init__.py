"""accelkit: share the accelerators of a Kubernetes cluster by memory and by card."""

from __future__ import annotations

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("accelkit")
