import pytest

from accelkit.model.card import MAX_CARD_ID
from accelkit.node.discovery import Nvml

UUID = "GPU-6c2bd9b1-1c1a-4f7e-9a53-000000000007"


def ids(found):
    return [each.card.id for each in found]


def test_nvml_uuid_is_used_as_card_id(host, find, fake_nvml):
    bdf = host.add("nvidia", 1, "T4").cards[0].bdf
    (found,) = find(Nvml(fake_nvml({bdf: {"uuid": UUID, "name": "Tesla T4", "minor": 5}})))
    assert (found.card.id, found.uuid, found.minor, found.card.minor) == (UUID, UUID, 5, 5)


def test_uuid_that_driver_has_not_read_is_ignored(host, find):
    bdf = host.add("nvidia", 1, "T4").cards[0].bdf
    host.write(f"proc/driver/nvidia/gpus/{bdf}/information", "GPU UUID: GPU-????????-????-????-????-????????????")
    (found,) = find()
    assert (found.card.id.endswith(f"-{bdf}-1eb8"), found.uuid) == (True, None)


def test_amd_unique_id_is_used_as_card_id(host, find):
    card = host.add("amd", 1, "MI300X").cards[0]
    host.write(host.find_device_folder(card.bdf) / "unique_id", "9fc5ed0b1d23ab01")
    assert find()[0].uuid == find()[0].card.id == "GPU-9fc5ed0b1d23ab01"


def test_card_without_unique_id_is_identified_by_machine_and_address(host, find):
    bdf = host.add("gaudi", 1, "Gaudi2").cards[0].bdf
    (found,) = find()
    machine, _, place = found.card.id.partition("-")
    assert (len(machine), place) == (8, f"{bdf}-1020")
    assert host.machine_id[:8] != machine


def test_machine_based_card_id_is_stable_and_differs_between_hosts(host, find, tmp_path):
    host.add("gaudi", 1, "Gaudi2")
    before = ids(find())
    assert ids(find()) == before
    host.write("etc/machine-id", "f" * 32)
    assert ids(find()) != before


@pytest.mark.parametrize("machine_id", ["", "uninitialized"])
def test_card_id_on_host_without_machine_id_omits_machine(host, find, machine_id):
    bdf = host.add("gaudi", 1, "Gaudi2").cards[0].bdf
    host.write("etc/machine-id", machine_id)
    assert ids(find()) == [f"{bdf}-1020"]


@pytest.mark.parametrize("serial", ["0000000000000000", "a" * MAX_CARD_ID, "a::b", "a b", "é"])
def test_invalid_unique_id_is_not_used_as_card_id(host, find, serial):
    card = host.add("amd", 1, "MI300X").cards[0]
    host.write(host.find_device_folder(card.bdf) / "unique_id", serial)
    (found,) = find()
    assert found.card.id.endswith(f"{card.bdf}-74a1")
    assert "::" not in found.card.id
    assert len(found.card.id) <= MAX_CARD_ID


def test_cards_with_same_unique_id_are_identified_by_address(host, find):
    one, two = host.add("amd", 2, "MI300X").cards
    for card in (one, two):
        host.write(host.find_device_folder(card.bdf) / "unique_id", "9fc5ed0b1d23ab01")
    assert [each.endswith(card.bdf + "-74a1") for each, card in zip(ids(find()), (one, two), strict=True)] == [True] * 2
