"""Finds the processes that have a card of this host open, in `/proc` below a root: whose they are and what they hold.

A process is on a card when it has one of the card's device nodes open. Nodes are compared by their device numbers,
since a container may have them under other names; in a tree of files, which has no device numbers, by their paths.
Memory comes from what DRM drivers say of each open file; what drivers do not say is None, until `add_nvml` adds what
NVIDIA's library knows. To see open files takes the right to look into other processes; whose a process is that NVIDIA's
library names, anybody may read. Nothing is kept between calls, so any thread may call.

A tenant chooses how many files its processes have open, and on which file systems. The scan reads a bounded number for
each pod, and never asks a file system that a tenant can serve, such as NFS.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from accelkit.errors import DevicePluginError
from accelkit.node.discovery.sysfs import read_key_values
from accelkit.node.processes.mounts import MountTables

_UID = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
# A reader in a cgroup namespace of its own sees other pods by a path that starts with `/..`. The outermost pod counts:
# one that runs a kubelet itself has pods of its own further in.
_POD: Final = re.compile(rf"(?:kubepods|:/\.\.).*?[/-]pod({_UID})(?=[./:]|$)", re.MULTILINE)
# Memory of the card itself: amdgpu has vram, xe vram0 and on, i915 local0 and on.
_MEMORY: Final = re.compile(r"drm-(resident|memory|total)-(?:vram|local)\d*")
# What lies on the card comes before what could: `memory` is an older name of `resident`, `total` counts evicted memory.
_FAMILIES: Final = ("resident", "memory", "total")
_UNITS: Final = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
# Open files of all processes of a pod that are read. Copies of a file cost a process nothing.
_MOST_FILES: Final = 50_000
# Reading a process that has just ended fails in one of these ways.
_GONE: Final = (FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True, slots=True)
class CardProcess:
    """A process that has a card open.

    Attributes:
        card: the card's id.
        command: what the kernel calls the process, at most 15 characters.
        pod_uid: the pod it belongs to, as its cgroup says; None where that is no pod's.
        memory_bytes: what it holds of the card, None when unknown. What several processes of a pod share, because one
            has started the others, counts in the first of them.
    """

    card: str
    pid: int
    command: str
    pod_uid: str | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Processes:
    """Processes on cards, by card and pid.

    Attributes:
        unread: how many processes could not be read.
        bounded: UIDs of pods that have more files open than are read, sorted. Some of their processes may be missing.
    """

    found: tuple[CardProcess, ...]
    unread: int
    bounded: tuple[str, ...] = ()


class _FilesExceededError(Exception):
    pass


@dataclass(slots=True)
class _Budget:
    """How many more open files of a pod are read."""

    files: int

    def take(self) -> None:
        self.files -= 1
        if self.files < 0:
            raise _FilesExceededError


@dataclass(frozen=True, slots=True)
class _OpenCard:
    """One open file of a card; `client` is what the driver counts memory by, `memory_bytes` None when it does not."""

    card: str
    client: str
    memory_bytes: int | None


def find_card_processes(root: Path, paths: Mapping[str, Collection[str]], bdfs: Mapping[str, str]) -> Processes:
    """Return the processes that have cards open.

    Args:
        root: the host's root folder.
        paths: by card id, its own device nodes, without those that all cards of a node share.
        bdfs: card ids by PCI address, to know a card by what its DRM driver says of an open file.

    Raises:
        DevicePluginError: there is no `/proc`, so nobody can say.
    """
    nodes = {_identify(root, path): card for card, own in paths.items() for path in own}
    found: list[CardProcess] = []
    counted: set[tuple[str, str, str]] = set()
    # By pod; no tenant has processes outside of one.
    budgets: dict[str, _Budget] = {}
    bounded: set[str] = set()
    mounts = MountTables()
    unread = 0
    for pid in list_pids(root):
        folder = root / "proc" / str(pid)
        try:
            pod_uid = find_pod_uid((folder / "cgroup").read_text(errors="replace"))
            owner = pod_uid or str(pid)
            budget = budgets.setdefault(owner, _Budget(_MOST_FILES)) if pod_uid else _Budget(sys.maxsize)
            opened: list[_OpenCard] = []
            try:
                opened.extend(_list_open_cards(folder, nodes, bdfs, budget, mounts))
            except _FilesExceededError:
                bounded.add(owner)
            if opened:
                command = _read_command(folder)
                held = _sum_held(opened, owner, counted)
                found += [CardProcess(card, pid, command, pod_uid, held[card]) for card in held]
        except _GONE:
            continue
        except OSError:
            unread += 1
    return Processes(_sort(found), unread, tuple(sorted(bounded)))


def add_nvml(root: Path, processes: Processes, used: Mapping[tuple[str, int], int | None]) -> Processes:
    """Add what NVIDIA's library says that processes hold, which counts before what was read.

    Args:
        root: the host's root folder.
        processes: those that have cards open, none where nobody looked.
        used: bytes by card id and pid, None of which the library knows no amount.
    """
    found = {(each.card, each.pid): each for each in processes.found}
    by_pid = {each.pid: each for each in processes.found}
    unread: set[int] = set()
    for (card, pid), memory_bytes in used.items():
        try:
            known = by_pid.get(pid) or _read_process(root / "proc" / str(pid), card)
        except _GONE:
            continue
        except OSError:
            unread.add(pid)
            continue
        found[card, pid] = replace(known, card=card, memory_bytes=memory_bytes)
    return Processes(_sort(found.values()), processes.unread + len(unread), processes.bounded)


def _read_process(folder: Path, card: str) -> CardProcess:
    """Return a process as everybody may see it."""
    pod_uid = find_pod_uid((folder / "cgroup").read_text())
    return CardProcess(card, int(folder.name), _read_command(folder), pod_uid, None)


def find_pod_uid(cgroup: str) -> str | None:
    """Return the pod that a process's `cgroup` file names, by any cgroup driver and version; None where it names none.

    A static pod has the UID that its kubelet made up, which on its mirror in the API is an annotation.
    """
    match = _POD.search(cgroup)
    return match[1].replace("_", "-") if match else None


def list_pids(root: Path) -> list[int]:
    """Return the ids of all processes.

    Raises:
        DevicePluginError: there is no `/proc`, so nobody can say.
    """
    try:
        pids = sorted(int(entry.name) for entry in (root / "proc").iterdir() if entry.name.isdecimal())
    except OSError as exc:
        raise DevicePluginError(f"the processes of this host cannot be listed: {exc}") from exc
    if pids:
        return pids
    # A host without processes is one whose /proc is not mounted here.
    raise DevicePluginError(
        f"{root / 'proc'} shows no processes", next_step="check that the host's /proc is mounted there"
    )


def _identify(root: Path, path: str) -> int | str:
    """Return what names a device node: its number, or its path where it is no node."""
    return _read_device_number(root / path.removeprefix("/")) or path


def _read_device_number(path: Path) -> int | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_rdev if stat.S_ISCHR(status.st_mode) else None


def _list_open_cards(
    folder: Path,
    nodes: Mapping[int | str, str],
    bdfs: Mapping[str, str],
    budget: _Budget,
    mounts: MountTables,
) -> Iterator[_OpenCard]:
    """Yield the open files of a process that are cards.

    Args:
        folder: of the process in `/proc`.
        nodes: card ids by what names their device nodes.
        bdfs: card ids by PCI address.
        budget: how many more files are read.
        mounts: the mount tables that were read so far.

    Raises:
        _FilesExceededError: the process has more files open.
    """
    with os.scandir(folder / "fd") as entries:
        for entry in entries:
            budget.take()
            try:
                target = str(Path(entry.path).readlink())
            except _GONE:
                continue
            if not target.startswith("/dev/"):
                continue
            facts = read_key_values(folder / "fdinfo" / entry.name)
            card = None
            # A file on a file system that does not answer would block the scan for good.
            if mounts.is_local(folder, facts.get("mnt_id")):
                card = nodes.get(_read_device_number(Path(entry.path)) or "")
            card = card or nodes.get(target)
            if card is None and not target.startswith("/dev/dri/"):
                continue
            card = bdfs.get(facts.get("drm-pdev", "")) or card
            if card is not None:
                yield _OpenCard(card, facts.get("drm-client-id") or f"file {entry.name}", _read_memory_bytes(facts))


def _read_memory_bytes(facts: Mapping[str, str]) -> int | None:
    sums: dict[str, int] = {}
    for key, value in facts.items():
        match = _MEMORY.fullmatch(key)
        amount = _parse_amount(value) if match else None
        if match and amount is not None:
            sums[match[1]] = sums.get(match[1], 0) + amount
    return next((sums[family] for family in _FAMILIES if family in sums), None)


def _parse_amount(text: str) -> int | None:
    number, _, unit = text.partition(" ")
    factor = _UNITS.get(unit.strip())
    return int(number) * factor if factor and number.isdecimal() else None


def _sum_held(opened: Collection[_OpenCard], owner: str, counted: set[tuple[str, str, str]]) -> dict[str, int | None]:
    """Sum up what a process holds by card; a client that the owner was charged for before adds nothing."""
    held: dict[str, int | None] = {}
    for each in opened:
        held.setdefault(each.card, None)
        if each.memory_bytes is None:
            continue
        client = (owner, each.card, each.client)
        held[each.card] = (held[each.card] or 0) + (0 if client in counted else each.memory_bytes)
        counted.add(client)
    return held


def _read_command(folder: Path) -> str:
    # A process chooses its own name, and people read it in a terminal.
    name = (folder / "comm").read_text(errors="replace").strip()
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _sort(processes: Collection[CardProcess]) -> tuple[CardProcess, ...]:
    return tuple(sorted(processes, key=lambda each: (each.card, each.pid)))
