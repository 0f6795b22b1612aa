"""Obstacles to a NIC's direct access to a card's memory (GPUDirect RDMA), derived from the known facts.

Even without obstacles, direct access is not guaranteed, because it also depends on libraries and the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from accelkit.model.card import Card
from accelkit.model.nic import Network, find_nearest_nics, is_near, rate_nearest
from accelkit.node.discovery.network.peer_access import Iommu, PeerAccess

# The vendor whose driver has a separate module for peer access, in addition to dma-bufs.
_WITH_MODULE: Final = "nvidia"


def list_obstacles(card: Card, place: int, network: Network, peers: PeerAccess) -> list[str]:
    """Return the obstacles for a card, as sentences with next steps. Unknown facts are not obstacles.

    Args:
        card: the card.
        place: the index of the card in the inventory.
        network: the node's NICs.
        peers: the facts about the host.
    """
    return [
        *_list_nic_obstacles(place, network),
        *_list_host_obstacles(card, peers),
        *_list_path_obstacles(card, peers),
    ]


def _list_nic_obstacles(place: int, network: Network) -> Iterator[str]:
    nearest = find_nearest_nics(network, place)
    if nearest and not any(nic.rdma for nic in nearest):
        yield "its nearest NIC does not have an RDMA device; load the NIC's RDMA driver, such as mlx5_ib"
    letter = rate_nearest(network.nearness[place]) if place < len(network.nearness) else ""
    if letter and not is_near(letter):
        yield "its PCI root complex does not contain a NIC; use another card of the node"


def _list_host_obstacles(card: Card, peers: PeerAccess) -> Iterator[str]:
    if peers.kernel_dma_buf is not False:
        return
    if card.vendor != _WITH_MODULE:
        yield "the kernel does not support dma-bufs for RDMA; use release 5.12 or newer"
    elif peers.peer_module is False:
        yield "nvidia_peermem is not loaded, and the kernel does not support dma-bufs for RDMA; load the module"


def _list_path_obstacles(card: Card, peers: PeerAccess) -> Iterator[str]:
    if peers.iommu.get(card.bdf) is Iommu.TRANSLATED:
        yield "the IOMMU translates its addresses; start the kernel with iommu=pt"
    if peers.redirected.get(card.bdf):
        yield "a bridge above it redirects peer requests to the root complex; disable ACS redirection there"
