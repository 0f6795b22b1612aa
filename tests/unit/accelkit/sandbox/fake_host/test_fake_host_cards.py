"""What the node agent finds on a fake host: the same as on a host that has these cards."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

import pytest

from accelkit.node.device_plugin.container_response import list_card_nodes
from accelkit.node.discovery import compute_topology, discover
from accelkit.node.health.signals import read_signals
from accelkit.sandbox.fake_host.files import HostFiles
from accelkit.sandbox.fake_host.host import FakeHost
from accelkit.sandbox.fake_host.models import MODELS
from accelkit.vendors.profiles import load_profiles

# What the kernel shows of a PCI device, whether a driver is bound to it or not.
PCI_FILES = {"vendor", "device", "class", "numa_node", "config", "current_link_width"}
VENDORS = {"nvidia": "T4", "amd": "W7900", "intel": "Flex 170", "gaudi": "Gaudi3", "enflame": "I20"}


def find(host):
    return discover(host.root, load_profiles().values(), None)


@dataclass(frozen=True)
class Known:
    """A card as its maker describes it; `mib` is what its driver shows, or else our own table."""

    vendor: str
    name: str
    model: str
    mib: int | None
    driver: str
    source: str
    links: int = 0


CARDS = [
    Known("nvidia", "T4", "Tesla T4", 15360, "nvidia", "table"),
    Known("nvidia", "A10", "NVIDIA A10", 23028, "nvidia", "table"),
    Known("nvidia", "A100", "NVIDIA A100-SXM4-80GB", 81920, "nvidia", "table"),
    Known("nvidia", "L40S", "NVIDIA L40S", 46068, "nvidia", "table"),
    Known("nvidia", "H100", "NVIDIA H100 80GB HBM3", 81559, "nvidia", "table"),
    Known("nvidia", "H200", "NVIDIA H200", 143771, "nvidia", "table"),
    Known("amd", "MI210", "AMD Instinct MI210", 64 * 1024, "amdgpu", "sysfs", links=2),
    Known("amd", "MI300X", "AMD Instinct MI300X", 192 * 1024, "amdgpu", "sysfs", links=2),
    Known("amd", "W7900", "AMD Radeon PRO W7900", 48 * 1024, "amdgpu", "sysfs"),
    Known("intel", "Max 1550", "Intel Data Center GPU Max 1550", 128 * 1024, "i915", "sysfs"),
    Known("intel", "Flex 170", "Intel Data Center GPU Flex 170", 16 * 1024, "i915", "sysfs"),
    Known("intel", "B580", "Intel Arc B580", 12 * 1024, "xe", "dmem"),
    Known("intel", "UHD 770", "8086:4680", None, "i915", ""),
    Known("gaudi", "Gaudi2", "Gaudi2", 96 * 1024, "habanalabs", "table"),
    Known("gaudi", "Gaudi3", "Gaudi3", 128 * 1024, "habanalabs", "table"),
    Known("enflame", "I20", "I20", 16 * 1024, "enflame", "table"),
    Known("enflame", "S60", "S60", 48 * 1024, "enflame", "table"),
    Known("xilinx", "U250", "xilinx_u250_gen3x16_xdma_shell_4_1", None, "xocl", ""),
]


def test_every_model_is_covered_by_test_cases():
    assert {(card.vendor, card.name) for card in CARDS} == {
        (vendor, name) for vendor in MODELS for name in MODELS[vendor]
    }


@pytest.mark.parametrize("known", CARDS, ids=lambda card: card.name)
def test_each_model_is_discovered_with_memory_driver_and_links(tmp_path, known):
    host = FakeHost(tmp_path).add(known.vendor, 3, known.name)
    found = find(host)
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink() and not path.exists()]
    cards = [each.card for each in found]
    assert [each.driver for each in found] == [known.driver] * 3
    assert {card.vendor for card in cards} == {known.vendor}
    assert {card.model for card in cards} == {known.model}
    assert {card.memory_bytes and card.memory_bytes // 2**20 for card in cards} == {known.mib}
    assert {card.memory_source for card in cards} == {known.source}
    assert [len(card.links) for card in cards] == [known.links] * 3
    assert [each.minor if each.render is None else each.render - 128 for each in found] == [0, 1, 2]


def test_memory_and_links_are_read_from_kfd_alone(tmp_path):
    host = FakeHost(tmp_path).add("amd", 2, "MI300X").add("amd", 2, "MI210").add("amd", 1, "W7900")
    for card in host.cards:
        (host.find_device_folder(card.bdf) / "mem_info_vram_total").unlink()
    found = [each.card for each in find(host)]
    assert [(card.memory_source, card.memory_bytes // 2**30) for card in found] == [
        *[("kfd", 192)] * 2,
        *[("kfd", 64)] * 2,
        ("kfd", 48),
    ]
    nodes = tmp_path / "sys/class/kfd/kfd/topology/nodes"
    assert "simd_count 0" in (nodes / "0/properties").read_text(), "the processor has a node, too"
    assert len(list(nodes.iterdir())) == 1 + 5
    # XGMI connects cards of one model.
    assert [[link.to for link in card.links] for card in found] == [
        *([found[1].id], [found[0].id]),
        *([found[3].id], [found[2].id]),
        [],
    ]


def test_pci_topology_groups_cards_by_switch_root_and_numa_node(tmp_path):
    host = FakeHost(tmp_path).add("nvidia", 10, "T4")
    found = find(host)
    assert compute_topology(tmp_path, found)[0] == "XSHHCCCCNN"
    assert compute_topology(tmp_path, found)[9] == "NNNNCCCCSX"
    assert [each.card.numa for each in found] == [0, 0, 0, 0, 1, 1, 1, 1, 0, 0]


def test_large_host_has_several_pci_domains(tmp_path):
    host = FakeHost(tmp_path).add("amd", 1, "MI210").add("enflame", 15, "I20").add("amd", 1, "MI300X")
    amd = [host.cards[0], host.cards[-1]]
    for card in amd:
        (host.find_device_folder(card.bdf) / "mem_info_vram_total").unlink()
    found = [each.card for each in find(host)]
    assert [card.bdf.partition(":")[0] for card in found] == ["0000"] * 16 + ["0001"]
    # The compute driver tells domains too, or one of them would be taken for the other.
    assert [card.memory_bytes // 2**30 for card in (found[0], found[-1])] == [64, 192]


@pytest.mark.parametrize(("vendor", "model"), VENDORS.items())
def test_each_card_is_healthy_and_has_its_own_device_nodes(tmp_path, vendor, model):
    host = FakeHost(tmp_path).add(vendor, 2, model)
    nodes = [set(list_card_nodes(each)) for each in find(host)]
    for card, own, others in zip(host.cards, nodes, reversed(nodes), strict=True):
        assert own - others
        signals = read_signals(tmp_path, card.bdf, sorted(own))
        assert signals.nodes == own
        assert (signals.present, signals.bound, signals.answers, signals.link_width) == (True, True, True, 16)
        assert (signals.unread, set(signals.errors.values())) == ((), {0})
        assert any("umc" in counter for counter in signals.errors) == (vendor == "amd")


def test_shared_device_nodes_are_created(tmp_path):
    host = FakeHost(tmp_path)
    for vendor, model in VENDORS.items():
        host.add(vendor, 1, model)
    shared = {"nvidiactl", "nvidia-uvm", "kfd", "gcuctl"}
    assert shared <= {path.name for path in (tmp_path / "dev").iterdir()}
    known = {node for profile in load_profiles().values() for node in profile.node_nodes}
    assert {f"/dev/{name}" for name in shared} <= known


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_device_node_numbers_match_sysfs_and_mode_is_0666(tmp_path):
    before = os.umask(0o022)
    try:
        host = FakeHost(tmp_path, device_nodes=True)
        for vendor, model in VENDORS.items():
            host.add(vendor, 2, model)
    except PermissionError:
        pytest.skip("this machine allows no device nodes")
    finally:
        os.umask(before)
    nodes = {path.name: path.stat() for path in (tmp_path / "dev").rglob("*") if not path.is_dir()}
    assert {stat.S_IMODE(node.st_mode) for node in nodes.values()} == {0o666}
    shown = {path.parent.name: path.read_text().strip() for path in (tmp_path / "sys/devices").rglob("dev")}
    assert len(shown) == 2 * (2 * 2 + 2)
    for name, numbers in shown.items():
        assert f"{os.major(nodes[name].st_rdev)}:{os.minor(nodes[name].st_rdev)}" == numbers
    majors = {name: os.major(node.st_rdev) for name, node in nodes.items()}
    # Those that Linux assigns; the others are free.
    assert [majors[name] for name in ("nvidia0", "nvidiactl", "card2", "renderD130", "accel0")] == [
        195,
        195,
        226,
        226,
        261,
    ]
    numbers = [node.st_rdev for node in nodes.values()]
    assert len(set(numbers)) == len(numbers)


def test_device_class_symlinks_resolve_to_cards(tmp_path):
    host = FakeHost(tmp_path).add("amd", 1, "W7900").add("gaudi", 1, "Gaudi2")
    one, two = (host.find_device_folder(card.bdf) for card in host.cards)
    classes = tmp_path / "sys/class"
    assert {path.resolve() for path in (classes / "drm").iterdir()} == {one / "drm/card0", one / "drm/renderD128"}
    assert [path.resolve() for path in (classes / "accel").iterdir()] == [two / "accel/accel0"]


def test_card_ids_are_stable_per_host_name_and_differ_between_names(tmp_path):
    def identities(folder, name):
        host = FakeHost(tmp_path / folder, name=name)
        for vendor, model in VENDORS.items():
            host.add(vendor, 1, model)
        return [each.card.id for each in find(host)]

    first, again, other = identities("a", "one"), identities("b", "one"), identities("c", "two")
    assert first == again
    assert len(set(first)) == 5
    assert not set(first) & set(other)


@pytest.mark.parametrize(("vendor", "model"), VENDORS.items())
def test_unbinding_card_removes_only_its_own_driver_files(tmp_path, vendor, model):
    host = FakeHost(tmp_path).add(vendor, 2, model)
    lost, kept = host.cards
    driver = tmp_path / "sys/bus/pci/drivers" / lost.model.driver
    assert {path.name for path in driver.iterdir()} == {lost.bdf, kept.bdf}
    host.unbind(lost.bdf)
    host.unbind(lost.bdf)
    folder = host.find_device_folder(lost.bdf)
    left = {path.name for path in folder.iterdir()}
    assert left == PCI_FILES | {f"aer_dev_{kind}" for kind in ("correctable", "nonfatal", "fatal")}
    assert [path.name for path in driver.iterdir()] == [kept.bdf]
    assert [read_signals(tmp_path, card.bdf, ()).bound for card in host.cards] == [False, True]
    assert [each.driver for each in find(host)] == [None, lost.model.driver]


def test_unbound_card_is_removed_from_kfd_and_proc(tmp_path):
    host = FakeHost(tmp_path).add("amd", 2, "MI300X").add("nvidia", 1, "T4")
    host.unbind(host.cards[0].bdf)
    host.unbind(host.cards[2].bdf)
    links = [each.card.links for each in find(host)]
    assert links == [()] * 3
    assert not list((tmp_path / "proc/driver/nvidia/gpus").iterdir())
    host.unbind(host.cards[1].bdf)
    assert not (tmp_path / "sys/class/kfd/kfd/topology/nodes").exists()


def test_removed_card_is_absent_and_neighbor_remains_bound(tmp_path):
    host = FakeHost(tmp_path).add("nvidia", 2, "T4")
    gone, kept = host.cards
    folder = host.find_device_folder(gone.bdf)
    host.remove(gone.bdf)
    assert not folder.exists()
    assert read_signals(tmp_path, gone.bdf, ()).present is False
    assert read_signals(tmp_path, kept.bdf, ()).bound is True


@pytest.mark.parametrize("kind", ["fatal", "nonfatal"])
def test_set_aer_increases_matching_pci_error_counter(tmp_path, kind):
    host = FakeHost(tmp_path).add("nvidia", 1, "T4")
    bdf = host.cards[0].bdf
    before = read_signals(tmp_path, bdf, ()).errors
    host.set_aer(bdf, kind, 7)
    after = read_signals(tmp_path, bdf, ()).errors
    assert [after[name] for name in after if after[name] != before[name]] == [7]


def test_correctable_pci_errors_have_separate_counter(tmp_path):
    host = FakeHost(tmp_path).add("nvidia", 1, "T4")
    host.set_aer(host.cards[0].bdf, "correctable", 5)
    text = (host.find_device_folder(host.cards[0].bdf) / "aer_dev_correctable").read_text()
    assert "TOTAL_ERR_COR 5" in text


def test_host_can_be_reopened_and_linked_twice(tmp_path):
    HostFiles(tmp_path, name="one")
    files = HostFiles(tmp_path, name="one")
    for _ in range(2):
        files.link("sys/a", tmp_path / "sys/bus")
        files.make_device_node("null", 1, 3)
    assert (tmp_path / "sys/a").resolve() == (tmp_path / "sys/bus").resolve()
    assert (tmp_path / "etc/machine-id").read_text() == files.machine_id + "\n"
    assert len(files.machine_id) == 32
