"""The health signals of one card, read from the host's files.

Paths are relative to a root folder, which is different in containers and tests. The files belong to the PCI and AER
interfaces of the Linux kernel, and to the RAS interface of the amdgpu driver.
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
# If a device is no longer on the bus, all bits of its configuration space are read as ones.
_GONE_FROM_BUS = b"\xff\xff\xff\xff"
# The counters of uncorrected errors of the link or the device. Corrected errors are normal.
_AER_FILES = ("aer_dev_fatal", "aer_dev_nonfatal")


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals of a card at one moment.

    Signals that could not be read are None, and the names of their files are in `unread`.

    Attributes:
        present: whether the PCI device exists.
        bound: whether it is bound to a kernel driver.
        driver: the name of the kernel driver.
        answers: whether its configuration space is readable and does not contain only ones.
        link_width: the number of PCI lanes in use.
        errors: the number of uncorrected errors since the driver was loaded, by counter.
        nodes: its existing device nodes.
        unread: the names of the files that could not be read.
        driver_start: an identifier that changes when the machine boots or the driver is bound to the card again. It
            ends with a dot while no driver is bound, and is empty if it cannot be read.
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
    """Read the signals of a card from the host's files.

    Args:
        root: the host's root folder.
        bdf: its PCI address; None for a card that is not a PCI device.
        nodes: the paths of its device nodes.
    """
    existing = frozenset(path for path in nodes if (root / path.removeprefix("/")).exists())
    if bdf is None:
        return Signals(nodes=existing)
    device = root / _DEVICES / bdf
    if not (root / _DEVICES).is_dir():
        return Signals(nodes=existing, unread=(str(_DEVICES),))
    if not device.exists():
        return Signals(present=False, nodes=existing, driver_start=_read_driver_start(root, device / "driver"))
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
        nodes=existing,
        unread=tuple(unread),
        driver_start=_read_driver_start(root, device / "driver"),
    )


def _read_driver_start(root: Path, link: Path) -> str:
    boot = read_text(root / "proc/sys/kernel/random/boot_id") or ""
    if not _BOOT_ID.fullmatch(boot):
        return ""
    try:
        # The kernel creates the link when it binds the driver, and no two files of sysfs have the same inode number.
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
    # The width is 0 if the link is down, and 255 if it is unknown.
    return int(text) if text.isdigit() and 0 < int(text) < 255 else None  # noqa: PLR2004 - the kernel's unknown width


def _read_counters(path: Path, unread: list[str], *, total: str) -> dict[str, int]:
    """Return the total in a file of `name number` lines, or the sum if there is no total, keyed by the file's name."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return {}
    except OSError:
        unread.append(path.name)
        return {}
    found = {name: int(number) for name, number in _NUMBER.findall(text)}
    return {path.name: found.get(total, sum(found.values()))} if found else {}
