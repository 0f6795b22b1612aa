"""Discovery of a host's cards from files below a root folder, which is different in tests and containers."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from accelkit.node.discovery.files.cards_file import find_listed
from accelkit.node.discovery.found_card import FoundCard
from accelkit.node.discovery.host import read_host
from accelkit.node.discovery.libraries import Library, LibraryState, find_library
from accelkit.node.discovery.network.nics import compute_network, place_beside
from accelkit.node.discovery.nvml import NVML_LIBRARY, Nvml, nvml_session
from accelkit.node.discovery.pci import find_pci
from accelkit.node.discovery.topology import compute_topology
from accelkit.vendors.profiles import FileDiscovery, Profile

__all__ = [
    "FoundCard",
    "Library",
    "LibraryState",
    "Nvml",
    "Survey",
    "compute_network",
    "compute_topology",
    "discover",
    "nvml_session",
    "place_beside",
    "survey",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Survey:
    """The cards of a host, and the vendors' libraries by vendor name."""

    cards: list[FoundCard]
    libraries: dict[str, tuple[Library, ...]]


def discover(root: Path, profiles: Iterable[Profile], nvml: Nvml | None = None) -> list[FoundCard]:
    """Return the cards of all profiles. PCI cards are numbered by address, in one sequence for all vendors.

    Args:
        root: the host's root folder.
        profiles: the profiles of the vendors to search for.
        nvml: NVIDIA's library, or None if it is not open. Without it, the facts about NVIDIA's cards are read from
            files and the profile.

    Raises:
        DevicePluginError: a required file cannot be read.
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


def survey(root: Path, profiles: Iterable[Profile]) -> Survey:
    """Return the cards as `discover` does, and the state of the vendors' libraries on this host.

    Raises:
        DevicePluginError: a required file cannot be read.
    """
    known = list(profiles)
    with nvml_session(root) as (nvml, nvml_library):
        cards = discover(root, known, nvml)
    vendors = {each.card.vendor for each in cards}
    libraries = {
        profile.name: tuple(
            nvml_library if name == NVML_LIBRARY else find_library(root, name) for name in profile.libraries
        )
        for profile in known
        if profile.name in vendors and profile.libraries
    }
    return Survey(cards, libraries)


@lru_cache(maxsize=64)
def _warn_once(problem: str) -> None:
    # Discovery runs periodically, but each problem is logged only once.
    log.warning("%s", problem)
