"""What speaks against GPUDirect RDMA, by what was read; what is unknown does not."""

import msgspec
import pytest

from accelkit.model.card import Card
from accelkit.model.nic import Network, Nic
from accelkit.node.discovery.network.peer_access import Iommu, PeerAccess
from accelkit.node.discovery.network.peer_obstacles import list_obstacles

BDF = "0000:13:00.0"
NICS = (Nic("0000:14:00.0", name="ib0", rdma="mlx5_0"),)
WELL = PeerAccess(peer_module=True, kernel_dma_buf=True, iommu={BDF: Iommu.PASSTHROUGH}, redirected={BDF: False})
UNKNOWN = PeerAccess(peer_module=None, kernel_dma_buf=None, iommu={BDF: None}, redirected={BDF: None})


def look(*, vendor="nvidia", row="S", nics=NICS, **facts):
    card = Card("c", vendor, "m", 1, bdf=BDF)
    return list_obstacles(card, 0, Network(nics, (row,)), msgspec.structs.replace(WELL, **facts))


@pytest.mark.parametrize("facts", [WELL, UNKNOWN])
def test_good_or_unknown_facts_are_not_obstacles(facts):
    row = "S" if facts is WELL else "?"
    assert list_obstacles(Card("c", "nvidia", "m", 1, bdf=BDF), 0, Network(NICS, (row,)), facts) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"iommu": {BDF: Iommu.TRANSLATED}}, "the IOMMU translates its addresses; start the kernel with iommu=pt"),
        ({"redirected": {BDF: True}}, "redirects peer requests to the root complex"),
        ({"row": "C"}, "its PCI root complex does not contain a NIC"),
        ({"nics": (Nic("0000:14:00.0", name="eth0"),)}, "its nearest NIC does not have an RDMA device"),
        ({"kernel_dma_buf": False, "peer_module": False}, "nvidia_peermem is not loaded"),
        ({"kernel_dma_buf": False, "vendor": "amd"}, "the kernel does not support dma-bufs for RDMA"),
    ],
)
def test_each_obstacle_is_reported_with_next_step(change, says):
    [sentence] = look(**change)
    assert says in sentence
    assert "; " in sentence


@pytest.mark.parametrize("change", [{"kernel_dma_buf": False}, {"peer_module": False}, {"iommu": {BDF: Iommu.OFF}}])
def test_either_dma_buf_or_peer_module_is_sufficient(change):
    assert look(**change) == []


def test_several_obstacles_are_all_reported():
    assert len(look(iommu={BDF: Iommu.TRANSLATED}, redirected={BDF: True}, row="C")) == 3


def test_card_without_nearness_row_has_no_nic_obstacle():
    assert list_obstacles(Card("c", "nvidia", "m", 1, bdf=BDF), 1, Network(NICS, ("C",)), WELL) == []
