"""The command `accelkit discover`."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.table import Table

from accelkit.errors import ConfigurationError
from accelkit.model.card import Card
from accelkit.model.nic import Network, find_nearest_nics, rate_nearest
from accelkit.model.topology import Nearness
from accelkit.model.units import format_bytes
from accelkit.node.discovery import Library, compute_network, survey
from accelkit.node.discovery.drivers import list_missing_drivers
from accelkit.node.discovery.network.peer_access import PeerAccess, read_peer_access
from accelkit.node.discovery.network.peer_obstacles import list_obstacles
from accelkit.node.host_root import host_root_option
from accelkit.output import output_option, print_value
from accelkit.vendors.profiles import load_usable_profiles


@click.command("discover", short_help="List the cards of this machine and the vendors' libraries.")
@host_root_option
@output_option
def discover_command(host_root: Path, output: str) -> None:
    """List the cards of this machine and their vendors' libraries, as the node agent finds them.

    The command does not require a cluster.
    """
    if not host_root.is_dir():
        raise ConfigurationError(f"the host's root {host_root} is not a folder", next_step="set ACCELKIT_HOST_ROOT")
    found = survey(host_root, load_usable_profiles().profiles.values())
    cards, missing = [each.card for each in found.cards], list_missing_drivers(found.cards)
    network = compute_network(host_root, found.cards)
    peers = read_peer_access(host_root, (card.bdf for card in cards if card.bdf)) if network else None
    obstacles = _find_obstacles(cards, network, peers)
    value = {
        "cards": cards,
        "libraries": found.libraries,
        "missing": missing,
        "network": network,
        "peers": peers,
        "obstacles": obstacles,
    }

    def build() -> RenderableType:
        tables = [_build_library_table(found.libraries)] if found.libraries else []
        networks = [_build_network_table(cards, network, peers, obstacles)] if network and peers and cards else []
        return Group(_build_card_table(cards, missing), *tables, *networks)

    print_value(value, output, build)


def _find_obstacles(cards: list[Card], network: Network | None, peers: PeerAccess | None) -> dict[str, list[str]]:
    if not network or not peers:
        return {}
    found = {card.id: list_obstacles(card, place, network, peers) for place, card in enumerate(cards)}
    return {card: sentences for card, sentences in found.items() if sentences}


def _build_network_table(
    cards: list[Card], network: Network, peers: PeerAccess, obstacles: dict[str, list[str]]
) -> Table:
    table = Table("CARD", "NEAREST NETWORK CARDS", "BY", "IOMMU", "REDIRECTED", box=None, pad_edge=False)
    for place, card in enumerate(cards):
        nearest = find_nearest_nics(network, place)
        names = ", ".join(nic.rdma or nic.name or nic.bdf for nic in nearest) or "unknown"
        letter = rate_nearest(network.nearness[place])
        by = Nearness(letter).name.lower().replace("_", " ") if letter else ""
        redirected = _format_fact(peers.redirected.get(card.bdf))
        table.add_row(card.id, names, by, peers.iommu.get(card.bdf) or "unknown", redirected)
    facts = f"nvidia_peermem: {_format_fact(peers.peer_module)}, dma-buf for RDMA: {_format_fact(peers.kernel_dma_buf)}"
    against = [f"{card}: {sentence}" for card, sentences in obstacles.items() for sentence in sentences]
    table.caption = "\n".join([facts, *against])
    return table


def _format_fact(fact: bool | None) -> str:  # noqa: FBT001 - it is the value to format
    return {True: "yes", False: "no", None: "unknown"}[fact]


def _build_library_table(libraries: dict[str, tuple[Library, ...]]) -> Table:
    table = Table("LIBRARY", "VENDOR", "STATE", "VERSION", "PATH", box=None, pad_edge=False)
    every = [(vendor, each) for vendor, found in libraries.items() for each in found]
    for vendor, each in every:
        table.add_row(each.name, vendor, each.state, each.version or "", each.path or "")
    table.caption = "\n".join(f"{each.name}: {each.reason}" for _, each in every if each.reason)
    return table


def _build_card_table(cards: list[Card], missing: list[str]) -> Table:
    table = Table("CARD", "VENDOR", "MODEL", "MEMORY", box=None, pad_edge=False)
    for card in cards:
        memory = "unknown" if card.memory_bytes is None else format_bytes(card.memory_bytes)
        table.add_row(card.id, card.vendor, card.model, memory)
    table.caption = "\n".join(missing) or None if cards else "no card was found"
    return table
