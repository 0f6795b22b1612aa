import os

import pytest

from accelkit.errors import DevicePluginError
from accelkit.node.device_plugin.container_response import build_environment, list_card_nodes

TOPSCLOUD = "etc/topscloud/topscloud.json"


def test_card_with_virtual_functions_is_not_listed(host, find):
    whole, split = host.add("intel", 2, "Flex 170").cards
    host.write(host.find_device_folder(split.bdf) / "sriov_numvfs", "2")
    assert [each.card.bdf for each in find()] == [whole.bdf]


def test_virtual_function_is_a_card_only_with_driver_of_vendor(host, find):
    parent, function = host.add("intel", 2, "Flex 170").cards
    (host.find_device_folder(function.bdf) / "physfn").symlink_to(host.find_device_folder(parent.bdf))
    assert [each.card.bdf for each in find()] == [parent.bdf, function.bdf]
    host.unbind(function.bdf)
    assert [each.card.bdf for each in find()] == [parent.bdf]


@pytest.mark.parametrize("file", ["class", "device"])
def test_card_removed_during_discovery_is_skipped(host, find, file):
    one, two = host.add("amd", 2, "MI300X").cards
    (host.find_device_folder(one.bdf) / file).unlink()
    assert [each.card.bdf for each in find()] == [two.bdf]


@pytest.mark.parametrize(
    ("vendor", "model"),
    [("nvidia", "T4"), ("amd", "MI300X"), ("intel", "Max 1550"), ("gaudi", "Gaudi2"), ("enflame", "S60")],
)
def test_card_without_driver_is_listed_but_has_no_known_device_nodes(host, find, vendor, model):
    host.add(vendor, 1, model)
    (before,) = find()
    host.unbind(host.cards[0].bdf)
    (found,) = find()
    assert (before.driver is not None, found.driver, found.minor) == (True, None, None)
    with pytest.raises(DevicePluginError, match="not known"):
        list_card_nodes(found)


def test_amd_card_without_unique_id_has_no_rocm_environment(host, find):
    card = host.add("amd", 1, "MI300X").cards[0]
    (host.find_device_folder(card.bdf) / "unique_id").unlink()
    (found,) = find()
    assert build_environment(found.profile, [found]) == {}


def test_device_node_names_from_topscloud_file_are_used(host, find):
    host.add("enflame", 1, "S60")
    host.write(TOPSCLOUD, '{"version": "v1", "mainDevice": ["/dev/oem"], "driverDevice": ["/dev/oemctl"]}')
    (found,) = find()
    assert (list_card_nodes(found), found.profile.node_nodes) == (["/dev/oem0"], ("/dev/oemctl",))


@pytest.mark.parametrize("text", ["{", '{"mainDevice": 3}', '{"mainDevice": ["/dev/{0}"]}'])
def test_invalid_topscloud_file_is_an_error(host, find, text):
    host.add("enflame", 1, "S60")
    host.write(TOPSCLOUD, text)
    with pytest.raises(DevicePluginError, match=r"topscloud\.json"):
        find()


def test_folder_of_older_enflame_driver_is_read(host, find):
    folder = host.find_device_folder(host.add("enflame", 1, "S60").cards[0].bdf)
    (folder / "enflame").rename(folder / "zixiao")
    assert find()[0].minor == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_pci_bus_is_an_error(host, find):
    folder = host.root / "sys/bus/pci/devices"
    folder.chmod(0)
    with pytest.raises(DevicePluginError, match="cannot list "):
        find()


def test_pci_bus_that_is_not_a_folder_is_an_error(host, find):
    folder = host.root / "sys/bus/pci/devices"
    folder.rmdir()
    folder.touch()
    with pytest.raises(DevicePluginError, match="cannot list "):
        find()


def test_fpga_user_function_is_listed_and_management_function_is_not(host, find):
    user, management = host.add("xilinx", 2, "U250").cards
    folder = host.find_device_folder(management.bdf)
    drivers = host.root / "sys/bus/pci/drivers"
    (drivers / "xclmgmt").mkdir()
    (folder / "driver").unlink()
    (folder / "driver").symlink_to(drivers / "xclmgmt")
    [found] = find()
    assert (found.card.bdf, found.card.vendor, found.card.memory_bytes) == (user.bdf, "xilinx", None)
    assert found.card.model == "xilinx_u250_gen3x16_xdma_shell_4_1"
    assert list_card_nodes(found) == ["/dev/dri/renderD128"]
