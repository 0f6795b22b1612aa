"""Report on the hardware, drivers and libraries of a machine. It uses the agent's code and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from accelkit.errors import DevicePluginError
from accelkit.model.card import Card
from accelkit.node.device_plugin.container_response import find_cards_by_address, list_card_nodes, list_own_nodes
from accelkit.node.discovery import FoundCard
from accelkit.node.discovery.nvml import initialize
from accelkit.node.enforcement.cgroups import CGROUPS
from accelkit.node.enforcement.memory_limits import find_unsupported
from accelkit.node.enforcement.mps import MpsFolders, find_enforcement, read_mps_daemons
from accelkit.node.health import HealthMonitor
from accelkit.node.processes.nvml import UsedMemory, read_used_memory
from accelkit.node.processes.scan import CardProcess, Processes, add_nvml, find_card_processes, list_pids

# A single bad observation may be temporary, so the monitor reports a defect only after two observations.
_OBSERVATIONS: Final = 2


class Missing(msgspec.Struct, frozen=True):
    """A missing prerequisite of the agent, with the step that installs it."""

    what: str
    next_step: str


class CardReport(msgspec.Struct, frozen=True):
    """The report on one card.

    Attributes:
        card: the card as in the inventory, with its health and whether MPS enforces its shares.
        device_nodes: the device nodes that a container gets for the card.
        processes: the processes that have the card open.
        memory_limits: the reason why NVIDIA's driver cannot enforce memory limits on the card; empty if it can; None
            for cards from other vendors.
    """

    card: Card
    device_nodes: tuple[str, ...]
    processes: tuple[CardProcess, ...]
    memory_limits: str | None


class HardwareReport(msgspec.Struct, frozen=True):
    """The report on a machine. `nvidia_driver` is the version of NVIDIA's driver; None if it does not respond."""

    nvidia_driver: str | None
    cards: tuple[CardReport, ...]
    missing: tuple[Missing, ...]


def check_hardware(root: Path, found: Sequence[FoundCard], nvml: Any | None, *, mps: MpsFolders) -> HardwareReport:
    """Return the report on a machine.

    Args:
        root: the machine's root folder.
        found: the cards of the machine.
        nvml: the module `pynvml`, which is not initialized yet; None if NVIDIA's library is missing.
        mps: the folders of NVIDIA's MPS control daemon.

    Raises:
        DevicePluginError: the processes of the machine cannot be listed.
    """
    nodes = {each.card.id: tuple(_list_nodes(each)) for each in found}
    bdfs = find_cards_by_address(found)
    used = UsedMemory({}, frozenset()) if nvml is None else read_used_memory(nvml, bdfs)
    processes = add_nvml(root, find_card_processes(root, nodes, bdfs), used.amounts)
    daemons = read_mps_daemons(root, list_pids(root))
    monitor = HealthMonitor(root, nodes=list_card_nodes)
    health = [monitor.observe(found) for _ in range(_OBSERVATIONS)][-1]
    version, limits = _query_driver(root, found, nvml)
    cards = tuple(
        CardReport(
            msgspec.structs.replace(
                each.card,
                health=health[each.card.id][0],
                health_reason=health[each.card.id][1],
                enforcement=find_enforcement(root, each, folders=mps, list_daemons=lambda: daemons) or "",
            ),
            nodes[each.card.id],
            tuple(process for process in processes.found if process.card == each.card.id),
            limits.get(each.card.id),
        )
        for each in found
    )
    missing = tuple(_list_missing(root, cards, processes, version=version))
    return HardwareReport(version, cards, missing)


def _list_nodes(found: FoundCard) -> Sequence[str]:
    try:
        return list_own_nodes(found)
    except DevicePluginError:
        # The error is reported as part of the card's health.
        return ()


def _query_driver(root: Path, found: Sequence[FoundCard], nvml: Any | None) -> tuple[str | None, dict[str, str]]:
    own = [each for each in found if "nvml" in each.profile.enforcement]
    if nvml is None:
        return None, {each.card.id: "NVIDIA's library is missing" for each in own}
    with initialize(nvml) as works:
        if not works:
            return None, {each.card.id: "the driver is not loaded" for each in own}
        version = nvml.nvmlSystemGetDriverVersion()
        limits = {each.card.id: find_unsupported(nvml, each.card.bdf, root / CGROUPS) for each in own}
        return version.decode() if isinstance(version, bytes) else version, limits


def _list_missing(
    root: Path, cards: Sequence[CardReport], processes: Processes, *, version: str | None
) -> Iterator[Missing]:
    if not cards:
        yield Missing("no card was found", "check `lspci`, and that the host's /sys and /dev are mounted here")
    if version is None and any(each.memory_limits is not None for each in cards):
        yield Missing(
            "NVIDIA's library or driver does not respond",
            "run `nvidia-smi`; in a container, provide libnvidia-ml.so.1 and the driver's device nodes",
        )
    for each in cards:
        name = each.card.id
        if each.card.memory_bytes is None:
            yield Missing(f"the memory of card {name} is unknown", "set it in /etc/accelkit/cards.yaml")
        elif each.card.estimated:
            yield Missing(
                f"the memory of card {name} is estimated from its model", "set it in /etc/accelkit/cards.yaml"
            )
        if each.card.health_reason:
            yield Missing(
                f"card {name} is {each.card.health}: {each.card.health_reason}", "read docs/reference/health.md"
            )
        if version is not None and each.memory_limits:
            reason = f"no memory limits on card {name}: {each.memory_limits}"
            yield Missing(reason, "read docs/explanation/enforcement.md")
    if processes.unread:
        yield Missing(f"{processes.unread} processes cannot be read", "run the command as root, with SYS_PTRACE")
    if not (root / CGROUPS / "cgroup.controllers").exists():
        yield Missing("cgroups of version 2 are missing", "boot the machine with systemd.unified_cgroup_hierarchy=1")
