"""For which kernel the driver of a node was chosen, where accelkit gives it: the label `accelkit.io/driver-kernel`.

A node without it has the driver that came with the machine, or another system's. That nobody chose it is no fault.
"""

from __future__ import annotations

import re
from typing import Final

from accelkit.model.pod import Node

KERNEL_LABEL: Final = "accelkit.io/driver-kernel"
# Other releases are changed before they become a label, so the label cannot be compared with them.
_IN_LABELS: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def read_chosen_kernel(node: Node) -> str:
    """Return the kernel for which accelkit chose the node's driver; empty where it chose none."""
    return (node.metadata.labels or {}).get(KERNEL_LABEL, "")


def is_for_another_kernel(chosen: str, running: str) -> bool:
    """Return whether a driver was chosen for another kernel than the one that runs; False where nobody can say."""
    return bool(chosen) and _IN_LABELS.fullmatch(running) is not None and chosen != running
