import logging

import pytest

from accelkit.node.discovery import Nvml

GIB = 2**30
DMEM = "sys/fs/cgroup/dmem.capacity"


def memory(found):
    return (found.card.memory_bytes, found.card.memory_source, found.card.estimated)


def test_memory_from_device_table_is_marked_as_estimated(host, find):
    host.add("nvidia", 1, "T4")
    assert memory(find()[0]) == (15360 * 2**20, "table", True)


def test_nvml_memory_is_read_with_reserved_memory(host, find, fake_nvml):
    bdf = host.add("nvidia", 1, "T4").cards[0].bdf
    (found,) = find(Nvml(fake_nvml({bdf: {"total": 16 * GIB, "reserved": GIB}})))
    assert memory(found) == (16 * GIB, "nvml", False)
    assert found.card.capacity_bytes == 15 * GIB


def test_total_memory_is_read_if_driver_does_not_report_reserved_memory(host, find, fake_nvml):
    bdf = host.add("nvidia", 1, "T4").cards[0].bdf
    (found,) = find(Nvml(fake_nvml({bdf: {"total": 16 * GIB}}, old=True)))
    assert (memory(found), found.card.reserved_bytes) == ((16 * GIB, "nvml", False), 0)


def test_memory_of_card_unknown_to_nvml_is_read_from_device_table(host, find, fake_nvml):
    host.add("nvidia", 1, "T4")
    assert memory(find(Nvml(fake_nvml({})))[0]) == (15360 * 2**20, "table", True)


def test_memory_sources_are_read_in_profile_order(host, find):
    card = host.add("amd", 1, "MI210").cards[0]
    total = host.find_device_folder(card.bdf) / "mem_info_vram_total"
    host.write(DMEM, f"drm/{card.bdf}/vram {60 * GIB}")
    assert memory(find()[0]) == (64 * GIB, "sysfs", False)
    total.unlink()
    assert memory(find()[0]) == (60 * GIB, "dmem", False)
    (host.root / DMEM).unlink()
    assert memory(find()[0]) == (64 * GIB, "kfd", False)


def test_dmem_regions_of_card_are_added(host, find):
    card = host.add("intel", 1, "B580").cards[0]
    host.write(DMEM, f"drm/{card.bdf}/vram0 {GIB}\ndrm/{card.bdf}/vram1 {GIB}\ndrm/{card.bdf}/stolen 99\nnonsense")
    assert memory(find()[0]) == (2 * GIB, "dmem", False)


@pytest.mark.parametrize("text", ["", "0", "none", "-1", str(2**63)])
def test_file_without_valid_amount_leaves_memory_unknown(host, find, text):
    card = host.add("intel", 1, "UHD 770").cards[0]
    host.write(host.find_device_folder(card.bdf) / "drm/card0/lmem_total_bytes", text)
    assert memory(find()[0]) == (None, "", False)


def test_partitions_without_own_render_nodes_are_one_card(host, find):
    card = host.add("amd", 1, "W7900").cards[0]
    (host.find_device_folder(card.bdf) / "mem_info_vram_total").unlink()
    nodes = host.root / "sys/class/kfd/kfd/topology/nodes"
    for name in ("properties", "mem_banks/0/properties"):
        host.write(nodes / "2" / name, (nodes / "1" / name).read_text())
    assert memory(find()[0]) == (96 * GIB, "kfd", False)


@pytest.mark.parametrize("name", ["{bdf}", "10de:1eb8", "{id}"])
def test_override_matches_address_device_id_or_card_id(host, find, override, name):
    bdf = host.add("nvidia", 1, "T4").cards[0].bdf
    named = name.format(bdf=bdf.upper(), id=find()[0].card.id)
    override(f'cards: {{"{named}": {{memory: 12GiB, reserved: 512MiB}}}}')
    (found,) = find()
    assert memory(found) == (12 * GIB, "admin", False)
    assert found.card.reserved_bytes == GIB // 2


def test_most_specific_override_is_used(host, find, override):
    bdf = host.add("nvidia", 1, "T4").cards[0].bdf
    override(f'cards:\n  "10de:1eb8": {{memory: 1GiB}}\n  "{bdf}": {{memory: 2GiB}}')
    assert memory(find()[0])[0] == 2 * GIB


def test_override_may_contain_only_reserved_memory(host, find, override):
    host.add("nvidia", 1, "T4")
    override('cards: {"10de:1eb8": {reserved: 1GiB}}')
    (found,) = find()
    assert (memory(found), found.card.reserved_bytes) == ((15360 * 2**20, "table", True), GIB)


@pytest.mark.parametrize("text", ["cards: [", "cards: 3", "card: {}", "- 1", "\x00"])
def test_invalid_overrides_file_is_logged_once_and_cards_are_found(host, find, override, caplog, text):
    host.add("nvidia", 2, "T4")
    override(text)
    with caplog.at_level(logging.WARNING):
        assert len(find()) == 2
        find()
    assert [
        record.message
        for record in caplog.records
        if "cards.yaml: " in record.message and "cannot use" in record.message
    ]
    assert len(caplog.records) == 1


@pytest.mark.parametrize("entry", ["{memory: many}", "{memory: 0}", "{memorie: 1GiB}", "3", "{memory: 1, reserved: 2}"])
def test_invalid_override_does_not_affect_other_overrides(host, find, override, caplog, entry):
    one, two = host.add("nvidia", 2, "T4").cards
    override(f'cards:\n  "{one.bdf}": {entry}\n  "{two.bdf}": {{memory: 2GiB}}')
    first, second = find()
    assert (memory(first)[1], memory(second)) == ("table", (2 * GIB, "admin", False))
    assert f"cannot use the entry {one.bdf}" in caplog.text
