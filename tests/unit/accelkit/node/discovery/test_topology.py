import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelkit.model.card import Card
from accelkit.model.topology import FABRICS, Nearness
from accelkit.node.discovery import FoundCard, Nvml, compute_topology
from accelkit.node.discovery.topology import PciPath, compare_pci
from accelkit.vendors.profiles import load_profiles

PLX, AMD, RED_HAT = "0x10b5", "0x1002", "0x1b36"


def matrix(host, found):
    return compute_topology(host.root, found)


def test_root_complexes_of_same_numa_node_are_nearer_than_two_numa_nodes(host, find):
    host.add("nvidia", 12, "T4")
    assert matrix(host, find())[0] == "XSHHCCCCNNNN"


def path(*bridges, vendor=AMD, root="pci0000:10"):
    return PciPath(root, vendor, tuple(bridges))


PORT, UP = ("0000:10:01.0", "0x1022"), ("0000:11:00.0", PLX)
ONE, TWO = ("0000:12:00.0", PLX), ("0000:12:01.0", PLX)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (path(PORT, UP, ONE), path(PORT, UP, TWO), Nearness.PCI_SWITCH),
        (path(PORT, UP, ONE, ("0:1", PLX), ("0:2", PLX)), path(PORT, UP, TWO), Nearness.PCI_MULTI),
        (path(PORT, UP, ONE, ("0:1", AMD), ("0:2", AMD)), path(PORT, UP, TWO), Nearness.PCI_SWITCH),
        (path(PORT), path(("0000:10:02.0", "0x1022")), Nearness.HOST_BRIDGE),
        (path(PORT), path(PORT, root="pci0000:20"), None),
        (path(PORT), None, None),
    ],
    ids=["one switch", "several", "bridges on the board", "two root ports", "two complexes", "unknown"],
)
def test_compare_pci_classifies_bridges_between_two_cards(a, b, expected):
    assert compare_pci(a, b) == compare_pci(b, a) == expected


def test_cards_in_flat_pci_tree_have_unknown_nearness(tmp_path, find, host):
    one, two = host.add("nvidia", 2, "T4").cards
    listed = tmp_path / "sys/bus/pci/devices"
    for card in (one, two):
        flat = tmp_path / "sys/devices/pci0000:00" / card.bdf
        shutil.copytree(host.find_device_folder(card.bdf), flat, symlinks=True)
        (listed / card.bdf).unlink()
        (listed / card.bdf).symlink_to(flat)
    assert matrix(host, find()) == ("X?", "?X")
    host.write(tmp_path / "sys/devices/pci0000:00" / two.bdf / "numa_node", "1")
    assert matrix(host, find()) == ("XC", "CX")


def test_cards_below_hypervisor_bridges_have_unknown_nearness(host, find):
    one, _ = host.add("nvidia", 2, "T4").cards
    host.write(host.find_device_folder(one.bdf).parents[1] / "vendor", RED_HAT)
    assert matrix(host, find()) == ("X?", "?X")


def test_root_complexes_without_numa_nodes_have_unknown_nearness(host, find):
    host.add("nvidia", 6, "T4")
    for card in host.cards:
        host.write(host.find_device_folder(card.bdf) / "numa_node", "-1")
    assert matrix(host, find())[0] == "XSHH??"


def test_simulated_cards_have_only_numa_nearness(host):
    profile = load_profiles()["simulated"]
    found = [FoundCard(Card(str(i), "v", "m", 1, numa=numa), i, i, profile) for i, numa in enumerate([0, 0, 1, None])]
    assert matrix(host, found) == ("XNC?", "NXC?", "CCX?", "???X")


def test_xgmi_is_nearer_than_any_pci_connection(host, find):
    host.add("amd", 4, "MI300X")
    found = find()
    assert matrix(host, found) == ("XDDD", "DXDD", "DDXD", "DDDX")
    assert {(link.to, link.kind) for link in found[0].card.links} == {(each.card.id, "XGMI") for each in found[1:]}


def test_xgmi_cards_without_direct_link_are_connected_through_hive(host, find):
    host.add("amd", 3, "MI300X")
    shutil.rmtree(host.root / "sys/class/kfd/kfd/topology/nodes/1/io_links/1")
    shutil.rmtree(host.root / "sys/class/kfd/kfd/topology/nodes/3/io_links/0")
    assert matrix(host, find()) == ("XDW", "DXD", "WDX")


def test_nvlink_is_direct_to_card_and_switched_through_nvswitch(host, find, fake_nvml):
    a, b, c, d = (card.bdf for card in host.add("nvidia", 4, "T4").cards)
    cards = {a: {"links": {0: f"0000{b.upper()}"}}, b: {}, c: {"links": {3: "switch"}}, d: {"links": {0: "switch"}}}
    found = find(Nvml(fake_nvml(cards)))
    assert matrix(host, found) == ("XDHH", "DXHH", "HHXW", "HHWX")
    assert [link.kind for each in found for link in each.card.links] == ["NVLink", "NVLink", "NVSwitch", "NVSwitch"]


def test_nvlink_count_is_larger_count_of_both_ends(host, find, fake_nvml):
    a, b, c = (card.bdf for card in host.add("nvidia", 3, "T4").cards)
    here, there = f"0000{a.upper()}", f"0000{b.upper()}"
    cards = {a: {"links": {0: there, 1: there, 2: f"0000{c.upper()}"}}, b: {"links": {5: here}}, c: {}}
    found = find(Nvml(fake_nvml(cards)))
    assert [[link.count for link in each.card.links] for each in found] == [[2, 1], [2], [1]]


bridges = st.lists(st.sampled_from([PORT, UP, ONE, TWO, ("0000:13:00.0", AMD)]), max_size=4, unique=True)
paths = st.none() | st.builds(
    lambda chain, root: path(*chain, root=root), bridges, st.sampled_from(["pci0000:10", "pci0000:20"])
)


@given(paths, paths)
def test_nearness_is_symmetric(a, b):
    assert compare_pci(a, b) == compare_pci(b, a)


def test_every_fabric_is_nearer_than_pci_switch():
    order = list(Nearness)
    assert all(order.index(near) < order.index(Nearness.PCI_SWITCH) for near in FABRICS.values())
