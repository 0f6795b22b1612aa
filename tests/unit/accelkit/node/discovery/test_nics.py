import pytest

from accelkit.model.inventory import Inventory, decode_inventory, encode_inventory
from accelkit.model.nic import MAX_NICS, Network, Nic, find_nearest_nics, is_near
from accelkit.node.discovery import compute_network, place_beside
from accelkit.node.discovery.network.nics import find_nics
from accelkit.node.discovery.network.peer_access import Iommu, read_peer_access

MELLANOX = ("15b3", "1021")


def add_nic(host, beside, bdf, *, rdma="", name="", pci_class="020000", numa=0, above=2):
    """Put a network card at the switch of a card, or so many bridges above it."""
    folder = host.find_device_folder(beside)
    for _ in range(above):
        folder = folder.parent
    folder /= bdf
    host._write_pci_device(folder, *MELLANOX, pci_class, numa)
    if name:
        (folder / "net" / name).mkdir(parents=True)
    if rdma:
        (folder / "infiniband" / rdma).mkdir(parents=True)
        listed = host.root / "sys/class/infiniband" / rdma
        listed.mkdir(parents=True)
        (listed / "device").symlink_to(folder)
    return folder


def test_each_card_has_its_nearest_nics(host, find):
    host.add("nvidia", 8, "T4")
    cards = find()
    add_nic(host, cards[0].card.bdf, "0000:1e:00.0", rdma="mlx5_0", name="ens1")
    add_nic(host, cards[4].card.bdf, "0000:5e:00.0", rdma="mlx5_1", pci_class="020700", numa=1)
    add_nic(host, cards[0].card.bdf, "0000:1f:00.0", name="eno1", above=4)
    network = compute_network(host.root, cards)
    assert [nic.rdma for nic in network.nics] == ["mlx5_0", "mlx5_1"]
    assert [nic.infiniband for nic in network.nics] == [False, True]
    assert network.nics[0].name == "ens1"
    assert network.nearness == ("SC", "SC", "HC", "HC", "CS", "CS", "CH", "CH")
    assert [find_nearest_nics(network, at)[0].rdma for at in (0, 3, 4, 7)] == ["mlx5_0", "mlx5_0", "mlx5_1", "mlx5_1"]
    assert [each.card.nic for each in place_beside(cards, network)] == [*"SSHHSSHH"]
    inventory = Inventory(1, tuple(each.card for each in cards), network=network)
    assert decode_inventory(encode_inventory(inventory)) == inventory


def test_nics_without_rdma_count_if_no_nic_has_rdma(host, find):
    host.add("nvidia", 1, "T4")
    cards = find()
    add_nic(host, cards[0].card.bdf, "0000:1e:00.0", name="eno1")
    network = compute_network(host.root, cards)
    assert [nic.name for nic in network.nics] == ["eno1"]


def test_host_without_nics_has_no_network_in_inventory(host, find):
    host.add("nvidia", 1, "T4")
    cards = find()
    assert compute_network(host.root, cards) is None
    assert place_beside(cards, None) == cards
    assert "network" not in encode_inventory(Inventory(1, tuple(each.card for each in cards)))


def test_virtual_functions_are_counted_but_not_listed(host, find):
    host.add("nvidia", 1, "T4")
    bdf = find()[0].card.bdf
    physical = add_nic(host, bdf, "0000:1e:00.0", rdma="mlx5_0")
    host.write(physical / "sriov_numvfs", "8")
    virtual = add_nic(host, bdf, "0000:1e:00.1", rdma="mlx5_1")
    (virtual / "physfn").symlink_to(physical)
    [nic] = find_nics(host.root)
    assert (nic.bdf, nic.virtual_functions) == ("0000:1e:00.0", 8)


def test_rdma_nics_are_listed_first_and_number_of_nics_is_bounded(host, find):
    host.add("nvidia", 1, "T4")
    bdf = find()[0].card.bdf
    for number in range(MAX_NICS + 3):
        add_nic(host, bdf, f"0000:{number + 0x60:02x}:00.0", rdma="mlx5_0" if number == MAX_NICS else "")
    found = find_nics(host.root)
    assert len(found) == MAX_NICS
    assert found[0].rdma == "mlx5_0"


@pytest.mark.parametrize(("row", "nearest"), [("", []), ("??", []), ("?C", ["b"]), ("HS", ["b"]), ("SSS", ["a", "b"])])
def test_nic_of_unknown_nearness_is_not_nearest(row, nearest):
    nics = (Nic("a"), Nic("b"))
    assert [nic.bdf for nic in find_nearest_nics(Network(nics, (row,)), 0)] == nearest
    assert find_nearest_nics(Network(nics, ()), 0) == ()


def test_a_shared_root_complex_is_near():
    assert [letter for letter in "XDWSMHNC?" if is_near(letter)] == [*"SMH"]
    assert not is_near("")


def test_unreadable_peer_access_facts_are_unknown(host, find):
    host.add("nvidia", 1, "T4")
    bdf = find()[0].card.bdf
    facts = read_peer_access(host.root, [bdf])
    assert (facts.peer_module, facts.kernel_dma_buf) == (None, None)
    assert facts.iommu == {bdf: None}
    # Who has no right to the configuration space sees its first 64 bytes.
    assert facts.redirected == {bdf: None}


def test_peer_access_facts_are_read_from_host(host, find):
    host.add("nvidia", 2, "T4")
    one, two = (each.card.bdf for each in find())
    host.write("proc/sys/kernel/osrelease", "5.14.0-427.el9.x86_64\n")
    (host.root / "sys/module/nvidia_peermem").mkdir(parents=True)
    host.write(host.find_device_folder(one) / "iommu_group/type", "identity\n")
    host.write(host.find_device_folder(two) / "iommu_group/type", "DMA-FQ\n")
    # A first capability of another kind, then ACS, and nothing after it: requests of peers go up.
    space = bytearray(4096)
    space[0x100:0x104] = (0x150 << 20 | 1 << 16 | 0x0001).to_bytes(4, "little")
    space[0x150:0x154] = (1 << 16 | 0x000D).to_bytes(4, "little")
    space[0x156:0x158] = (0b0000_1101).to_bytes(2, "little")
    (host.find_device_folder(one).parent / "config").write_bytes(bytes(space))
    facts = read_peer_access(host.root, [two, one])
    assert (facts.peer_module, facts.kernel_dma_buf) == (True, True)
    assert facts.iommu == {one: Iommu.PASSTHROUGH, two: Iommu.TRANSLATED}
    assert facts.redirected == {one: True, two: None}
    host.write("proc/sys/kernel/osrelease", "5.4.0-generic")
    (host.root / "sys/module/nvidia_peermem").rmdir()
    (host.root / "sys/class/iommu").mkdir(parents=True)
    (host.find_device_folder(one) / "iommu_group/type").unlink()
    facts = read_peer_access(host.root, [one])
    assert (facts.peer_module, facts.kernel_dma_buf, facts.iommu[one]) == (False, False, Iommu.OFF)


def test_peer_requests_are_not_redirected_without_acs(host, find):
    host.add("nvidia", 1, "T4")
    bdf = find()[0].card.bdf
    for parent in list(host.find_device_folder(bdf).parents)[:3]:
        (parent / "config").write_bytes(bytes(4096))
    assert read_peer_access(host.root, [bdf]).redirected == {bdf: False}
