"""PTX ISA and CUDA versions of each NVIDIA driver branch, which determine the kernels that a driver can load.

The sources are the release history in NVIDIA's "PTX ISA" and the driver table in the CUDA Toolkit release notes. A
driver that is newer than the table supports at least the versions of the last row.
"""

from __future__ import annotations

import re
from typing import Final

Version = tuple[int, int]

# CUDA version, its PTX ISA version, and the driver branch that was released with it.
_HISTORY: Final = (
    ((10, 0), 63, 410),
    ((10, 1), 64, 418),
    ((10, 2), 65, 440),
    ((11, 0), 70, 450),
    ((11, 1), 71, 455),
    ((11, 2), 72, 460),
    ((11, 3), 73, 465),
    ((11, 4), 74, 470),
    ((11, 5), 75, 495),
    ((11, 6), 76, 510),
    ((11, 7), 77, 515),
    ((11, 8), 78, 520),
    ((12, 0), 80, 525),
    ((12, 1), 81, 530),
    ((12, 2), 82, 535),
    ((12, 3), 83, 545),
    ((12, 4), 84, 550),
    ((12, 5), 85, 555),
    ((12, 6), 85, 560),
    ((12, 7), 86, 565),
    ((12, 8), 87, 570),
    ((12, 9), 88, 575),
    ((13, 0), 90, 580),
    ((13, 1), 91, 590),
)
_VERSION: Final = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?(?:\.\d{1,9})*", re.ASCII)


def parse_version(text: str | None) -> Version | None:
    """Return the major and minor version in `12.9`, `12.9.1` or `12`; None if the text is not a version."""
    found = _VERSION.fullmatch(text or "")
    return (int(found[1]), int(found[2] or 0)) if found else None


def find_driver_cuda(driver_version: str | None) -> Version | None:
    """Return the CUDA version of a driver (`550.54.14`); None if it is unknown or older than all drivers in the table.

    A branch between two rows of the table is treated as the older branch.
    """
    driver = parse_version(driver_version)
    fitting = [cuda for cuda, _, branch in _HISTORY if driver is not None and branch <= driver[0]]
    return fitting[-1] if fitting else None


def is_newer_than_table(driver_version: str | None) -> bool:
    """Return whether a driver's branch is newer than the last row, so the driver may support newer CUDA versions."""
    driver = parse_version(driver_version)
    return driver is not None and driver[0] > _HISTORY[-1][2]


def can_load_ptx(ptx_version: int, cuda: Version) -> bool | None:
    """Return whether a driver that supports a CUDA version can load a PTX ISA version (84 is 8.4); None if unknown."""
    if cuda < _HISTORY[0][0]:
        return None
    newest = max(ptx for version, ptx, _ in _HISTORY if version <= cuda)
    if ptx_version <= newest:
        return True
    return None if cuda > _HISTORY[-1][0] else False
