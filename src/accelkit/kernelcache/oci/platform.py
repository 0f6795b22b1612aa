"""CPU architecture names in the OCI specifications and Kubernetes, such as `amd64` and `arm64`."""

from __future__ import annotations

import platform
from typing import Final

_KERNEL_NAMES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def normalize_architecture(name: str) -> str:
    """Return the OCI name of a CPU architecture, given its OCI name or the name that the kernel uses (`x86_64`)."""
    return _KERNEL_NAMES.get(name.lower(), name.lower())


def read_host_architecture() -> str:
    """Return the CPU architecture of this host."""
    return normalize_architecture(platform.machine())
