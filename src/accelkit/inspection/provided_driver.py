"""Node labels for a driver that accelkit has installed: the kernel of the driver, and the module that KMM loads.

A node without these labels has a driver from its image or from another owner, which is not a fault.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from accelkit.model.keys import DRIVER_KERNEL_LABEL
from accelkit.model.pod import Node

_MAX_LABEL: Final = 63
_DIGEST: Final = 8
_NOT_IN_LABELS: Final = re.compile(r"[^A-Za-z0-9_.-]")
# KMM adds this label after it has loaded a module. The label contains the namespace and name of the Module. The names
# of accelkit's Modules have this prefix.
_LOADED: Final = re.compile(r"kmm\.node\.kubernetes\.io/([^.]+)\.(accelkit-driver-.+)\.ready")


def build_label(kernel: str) -> str:
    """Return the label value that selects nodes with this kernel.

    The value is the kernel release if this is a valid label value. Otherwise, the value is truncated and ends with part
    of a hash, so that different kernels have different values.
    """
    value = _NOT_IN_LABELS.sub("_", kernel).strip("_.-")
    if value == kernel and len(value) <= _MAX_LABEL:
        return value
    digest = hashlib.sha256(kernel.encode()).hexdigest()[:_DIGEST]
    return f"{value[: _MAX_LABEL - _DIGEST - 1].rstrip('_.-')}-{digest}"


def read_chosen_kernel(node: Node) -> str:
    """Return the kernel for which accelkit selected the node's driver, as a label value; empty if there is none."""
    return (node.metadata.labels or {}).get(DRIVER_KERNEL_LABEL, "")


def is_for_another_kernel(chosen: str, running: str) -> bool:
    """Return whether a driver was selected for a kernel that is not running; False if either kernel is unknown."""
    return bool(chosen and running) and chosen != build_label(running)


def find_module(node: Node, namespace: str) -> str:
    """Return the name of the accelkit module that KMM has loaded on a node; empty if there is none."""
    found = (_LOADED.fullmatch(key) for key in node.metadata.labels or {})
    return next((each[2] for each in found if each is not None and each[1] == namespace), "")
