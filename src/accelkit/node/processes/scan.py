"""Scan of `/proc` below a root folder for processes that have a card of this host open, with their pods and memory.

A process uses a card if it has one of the card's device nodes open. Nodes are compared by their device numbers, because
their names may be different in a container. In the file tree of a test, which does not have device numbers, paths are
compared. DRM drivers report the memory of each open file. With other drivers, the memory is None until `add_nvml` adds
the amounts from NVIDIA's library. Reading the open files of other processes requires the capability SYS_PTRACE; reading
the pod of a process does not. The module has no state, so any thread may call its functions.

Tenants control the number of open files of their processes, and the file systems of these files. The scan reads a
limited number of files for each pod, and never accesses a file system that a tenant can serve, such as NFS.
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
# In a cgroup namespace, the paths of other pods start with `/..`. The outermost pod is used, because a pod that runs a
# kubelet contains other pods.
_POD: Final = re.compile(rf"(?:kubepods|:/\.\.).*?[/-]pod({_UID})(?=[./:]|$)", re.MULTILINE)
# The regions in the card's own memory: `vram` in amdgpu, `vram0` and higher numbers in xe, `local0` and higher numbers
# in i915.
_MEMORY: Final = re.compile(r"drm-(resident|memory|total)-(?:vram|local)\d*")
# Resident memory takes precedence. `memory` is an older name for `resident`, and `total` includes evicted memory.
_FAMILIES: Final = ("resident", "memory", "total")
_UNITS: Final = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
# The maximum number of open files to read for all processes of a pod. The limit is required because a process can
# cheaply create many file descriptors.
_MAX_FILES: Final = 50_000
# The errors that occur when a process terminates during the read.
_GONE: Final = (FileNotFoundError, ProcessLookupError)


@dataclass(frozen=True, slots=True)
class CardProcess:
    """A process that has a card open.

    Attributes:
        card: the card's ID.
        pid: the process ID.
        command: the kernel's name for the process, with at most 15 characters.
        pod_uid: the UID of the pod, from the cgroup of the process; None if the process does not belong to a pod.
        memory_bytes: the memory of the card that the process uses; None if it is unknown. If processes of a pod share
            memory after a fork, it is counted only for the first of these processes.
    """

    card: str
    pid: int
    command: str
    pod_uid: str | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class Processes:
    """Processes on cards, sorted by card and process ID.

    Attributes:
        found: the processes.
        unread: the number of processes that could not be read.
        bounded: the UIDs of pods with more open files than the scan reads, sorted. Their processes may be incomplete.
    """

    found: tuple[CardProcess, ...]
    unread: int
    bounded: tuple[str, ...] = ()


class _FilesExceededError(Exception):
    pass


@dataclass(slots=True)
class _Budget:
    """The remaining number of open files of a pod that may be read."""

    files: int

    def take(self) -> None:
        self.files -= 1
        if self.files < 0:
            raise _FilesExceededError


@dataclass(frozen=True, slots=True)
class _OpenCard:
    """One open file of a card. `memory_bytes` is the memory of the DRM `client`; None if it is not reported."""

    card: str
    client: str
    memory_bytes: int | None


def find_card_processes(root: Path, paths: Mapping[str, Collection[str]], bdfs: Mapping[str, str]) -> Processes:
    """Return the processes that have cards open.

    Args:
        root: the host's root folder.
        paths: the device nodes of each card, by card ID, without the nodes that all cards of a host share.
        bdfs: the card IDs by PCI address, because DRM drivers report the address for an open file.

    Raises:
        DevicePluginError: `/proc` cannot be listed, so the processes are unknown.
    """
    nodes = {_identify(root, path): card for card, own in paths.items() for path in own}
    found: list[CardProcess] = []
    counted: set[tuple[str, str, str]] = set()
    # Each pod has a budget, because all processes of tenants run in pods.
    budgets: dict[str, _Budget] = {}
    bounded: set[str] = set()
    mounts = MountTables()
    unread = 0
    for pid in list_pids(root):
        folder = root / "proc" / str(pid)
        try:
            pod_uid = find_pod_uid((folder / "cgroup").read_text(errors="replace"))
            owner = pod_uid or str(pid)
            budget = budgets.setdefault(owner, _Budget(_MAX_FILES)) if pod_uid else _Budget(sys.maxsize)
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
    """Add the memory that NVIDIA's library reports for processes. It takes precedence over the memory from the scan.

    Args:
        root: the host's root folder.
        processes: the processes that have cards open; empty without a scan.
        used: the used memory in bytes, by card ID and process ID; None for an unknown amount.
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
    """Return a process from files that are readable without privileges."""
    pod_uid = find_pod_uid((folder / "cgroup").read_text())
    return CardProcess(card, int(folder.name), _read_command(folder), pod_uid, None)


def find_pod_uid(cgroup: str) -> str | None:
    """Return the pod UID from a process's `cgroup` file, for any cgroup driver and version; None if there is none.

    The UID of a static pod is generated by its kubelet. The mirror pod in the API has this UID in an annotation.
    """
    match = _POD.search(cgroup)
    return match[1].replace("_", "-") if match else None


def list_pids(root: Path) -> list[int]:
    """Return the IDs of all processes.

    Raises:
        DevicePluginError: `/proc` cannot be listed, so the processes are unknown.
    """
    try:
        pids = sorted(int(entry.name) for entry in (root / "proc").iterdir() if entry.name.isdecimal())
    except OSError as exc:
        raise DevicePluginError(f"cannot list the processes of this host: {exc}") from exc
    if pids:
        return pids
    # If there are no processes, the host's /proc is not mounted in this container.
    raise DevicePluginError(
        f"{root / 'proc'} contains no processes", next_step="check that the host's /proc is mounted there"
    )


def _identify(root: Path, path: str) -> int | str:
    """Return the number of a device node, or the path if it is not a device node."""
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
        folder: the folder of the process in `/proc`.
        nodes: the card IDs by the number or path of their device nodes.
        bdfs: the card IDs by PCI address.
        budget: the number of files that may still be read.
        mounts: the cached mount tables.

    Raises:
        _FilesExceededError: the process has more open files than the budget allows.
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
            # A file on an unresponsive file system would block the scan indefinitely.
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
    """Return the memory that a process uses, by card, without DRM clients that are already counted for `owner`."""
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
    # Replace unprintable characters, because users read the name in a terminal, and a process can set it to any
    # characters.
    name = (folder / "comm").read_text(errors="replace").strip()
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _sort(processes: Collection[CardProcess]) -> tuple[CardProcess, ...]:
    return tuple(sorted(processes, key=lambda each: (each.card, each.pid)))
