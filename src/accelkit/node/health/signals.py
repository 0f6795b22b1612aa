"""Reads the health signals of one card from the host's files.

Paths lie below a root that may be moved. Files are those of the Linux kernel's PCI, AER and amdgpu's RAS interfaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from accelkit.node.discovery.sysfs import read_text

_DEVICES = Path("sys/bus/pci/devices")
_NUMBER = re.compile(r"^\s*(\S+?):?\s+(\d+)\s*$", re.MULTILINE)
_BOOT_ID = re.compile(r"[0-9a-f-]{36}")
# A device that has left the bus reads as ones only.
_GONE_FROM_BUS = b"\xff\xff\xff\xff"
# Errors that the link or the device could not repair; corrected ones are everyday.
_AER_FILES = ("aer_dev_fatal", "aer_dev_nonfatal")


@dataclass(frozen=True, slots=True)
class Signals:
    """A card's signals at one moment; what could not be read is None, and named in `unread`.

    Attributes:
        present: whether the PCI device is there.
        bound: whether it is bound to a kernel driver.
        driver: the name of that driver.
        answers: whether its configuration space reads as a device's.
        link_width: lanes in use.
        errors: uncorrected errors since the driver was loaded, by counter.
        nodes: its device nodes that are there.
        driver_start: changes whenever the machine starts or the card gets its driver anew; ends in a dot while it has
            none, and is empty where that cannot be seen.
    """

    present: bool | None = None
    bound: bool | None = None
    driver: str | None = None
    answers: bool | None = None
    link_width: int | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    nodes: frozenset[str] = frozenset()
    unread: tuple[str, ...] = ()
    driver_start: str = ""


def read_signals(root: Path, bdf: str | None, nodes: Sequence[str]) -> Signals:
    """Read a card's files.

    Args:
        root: the host's root folder.
        bdf: PCI address; None for a card that is no PCI device.
        nodes: paths of its device nodes.
    """
    there = frozenset(path for path in nodes if (root / path.removeprefix("/")).exists())
    if bdf is None:
        return Signals(nodes=there)
    device = root / _DEVICES / bdf
    if not (root / _DEVICES).is_dir():
        return Signals(nodes=there, unread=(str(_DEVICES),))
    if not device.exists():
        return Signals(present=False, nodes=there, driver_start=_read_driver_start(root, device / "driver"))
    unread: list[str] = []
    bound, driver = _read_driver(device / "driver", unread)
    errors: dict[str, int] = {}
    for name in _AER_FILES:
        errors |= _read_counters(device / name, unread, total=f"TOTAL_ERR_{name.removeprefix('aer_dev_').upper()}")
    for file in sorted((device / "ras").glob("*_err_count")):
        errors |= _read_counters(file, unread, total="ue")
    return Signals(
        present=True,
        bound=bound,
        driver=driver,
        answers=_read_answers(device / "config", unread),
        link_width=_read_number(device / "current_link_width", unread),
        errors=errors,
        nodes=there,
        unread=tuple(unread),
        driver_start=_read_driver_start(root, device / "driver"),
    )


def _read_driver_start(root: Path, link: Path) -> str:
    boot = read_text(root / "proc/sys/kernel/random/boot_id") or ""
    if not _BOOT_ID.fullmatch(boot):
        return ""
    try:
        # The kernel makes the link when it binds the driver, and gives no two of its files the same number.
        return f"{boot}.{link.lstat().st_ino:x}"
    except OSError:
        return f"{boot}."


def _read_driver(path: Path, unread: list[str]) -> tuple[bool | None, str | None]:
    try:
        return True, path.readlink().name
    except FileNotFoundError:
        return False, None
    except OSError:
        unread.append(path.name)
        return None, None


def _read_answers(path: Path, unread: list[str]) -> bool | None:
    try:
        with path.open("rb") as file:
            head = file.read(len(_GONE_FROM_BUS))
    except FileNotFoundError:
        return None
    except OSError:
        unread.append(path.name)
        return None
    return head != _GONE_FROM_BUS if len(head) == len(_GONE_FROM_BUS) else None


def _read_number(path: Path, unread: list[str]) -> int | None:
    try:
        text = path.read_text().strip()
    except FileNotFoundError:
        return None
    except OSError:
        unread.append(path.name)
        return None
    # A link that is down has 0 lanes, one that nobody knows 255.
    return int(text) if text.isdigit() and 0 < int(text) < 255 else None  # noqa: PLR2004 - the kernel's unknown width


def _read_counters(path: Path, unread: list[str], *, total: str) -> dict[str, int]:
    """Return the total of a file of `name number` lines, by the file's name; the sum where it has no total."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    except OSError:
        unread.append(path.name)
        return {}
    found = {name: int(number) for name, number in _NUMBER.findall(text)}
    return {path.name: found.get(total, sum(found.values()))} if found else {}
