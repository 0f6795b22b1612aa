"""Finds the cards of a host, from files below a root that tests and containers may move."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from accelkit.node.discovery.cards_file import find_listed
from accelkit.node.discovery.found_card import FoundCard
from accelkit.node.discovery.host import read_host
from accelkit.node.discovery.nvml import Nvml, nvml_session
from accelkit.node.discovery.pci import find_pci
from accelkit.node.discovery.topology import compute_topology
from accelkit.vendors.profiles import FileDiscovery, Profile

__all__ = ["FoundCard", "Nvml", "compute_topology", "discover", "nvml_session", "survey"]

log = logging.getLogger(__name__)


def discover(root: Path, profiles: Iterable[Profile], nvml: Nvml | None = None) -> list[FoundCard]:
    """Return the cards of all profiles, those of PCI numbered by address over all vendors.

    Args:
        root: the host's root folder.
        profiles: the vendors to look for.
        nvml: NVIDIA's library where it is open; without it its cards are known by files and table.

    Raises:
        DevicePluginError: a file that must be readable is not.
    """
    known = list(profiles)
    found = [
        card
        for profile in known
        if isinstance(profile.discovery, FileDiscovery)
        for card in find_listed(root, profile, profile.discovery)
    ]
    host = read_host(root, nvml)
    for problem in host.overrides.problems:
        _warn_once(problem)
    return found + find_pci(host, known, max((card.index + 1 for card in found), default=0))


def survey(root: Path, profiles: Iterable[Profile]) -> list[FoundCard]:
    """Return the cards as `discover` does, with the vendors' libraries where they load on this host.

    Raises:
        DevicePluginError: a file that must be readable is not.
    """
    with nvml_session() as nvml:
        return discover(root, profiles, nvml)


@lru_cache(maxsize=64)
def _warn_once(problem: str) -> None:
    # Discovery runs again and again; one mistake is told once.
    log.warning("%s", problem)
