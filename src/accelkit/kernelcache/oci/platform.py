"""CPU architectures by their names in the OCI specifications and Kubernetes: `amd64`, `arm64`…."""

from __future__ import annotations

import platform
from typing import Final

_KERNEL_NAMES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def normalize_architecture(name: str) -> str:
    """Return the OCI name of a CPU architecture, which may be given as the kernel names it (`x86_64`)."""
    return _KERNEL_NAMES.get(name.lower(), name.lower())


def read_host_architecture() -> str:
    """Return the CPU architecture of this host."""
    return normalize_architecture(platform.machine())
