import os

import pytest

from accelkit.errors import DevicePluginError
from accelkit.node.device_plugin.container_response import build_environment, list_card_nodes

TOPSCLOUD = "etc/topscloud/topscloud.json"


def test_a_card_split_into_virtual_functions_is_no_card_itself(host, find):
    whole, split = host.add("intel", 2, "Flex 170").cards
    host.write(host.find_device_folder(split.bdf) / "sriov_numvfs", "2")
    assert [each.card.bdf for each in find()] == [whole.bdf]


def test_a_virtual_function_is_a_card_once_the_vendors_driver_has_it(host, find):
    parent, function = host.add("intel", 2, "Flex 170").cards
    (host.find_device_folder(function.bdf) / "physfn").symlink_to(host.find_device_folder(parent.bdf))
    assert [each.card.bdf for each in find()] == [parent.bdf, function.bdf]
    host.unbind(function.bdf)
    assert [each.card.bdf for each in find()] == [parent.bdf]


@pytest.mark.parametrize("file", ["class", "device"])
def test_a_card_that_goes_while_it_is_read_is_gone(host, find, file):
    one, two = host.add("amd", 2, "MI300X").cards
    (host.find_device_folder(one.bdf) / file).unlink()
    assert [each.card.bdf for each in find()] == [two.bdf]


@pytest.mark.parametrize(
    ("vendor", "model"),
    [("nvidia", "T4"), ("amd", "MI300X"), ("intel", "Max 1550"), ("gaudi", "Gaudi2"), ("enflame", "S60")],
)
def test_a_card_without_its_driver_is_shown_and_cannot_be_given(host, find, vendor, model):
    host.add(vendor, 1, model)
    (before,) = find()
    host.unbind(host.cards[0].bdf)
    (found,) = find()
    assert (before.driver is not None, found.driver, found.minor) == (True, None, None)
    with pytest.raises(DevicePluginError, match="not known"):
        list_card_nodes(found)


def test_rocm_is_told_nothing_where_a_card_has_no_name_it_knows(host, find):
    card = host.add("amd", 1, "MI300X").cards[0]
    (host.find_device_folder(card.bdf) / "unique_id").unlink()
    (found,) = find()
    assert build_environment(found.profile, [found]) == {}


def test_a_sellers_own_names_of_device_nodes_are_used(host, find):
    host.add("enflame", 1, "S60")
    host.write(TOPSCLOUD, '{"version": "v1", "mainDevice": ["/dev/oem"], "driverDevice": ["/dev/oemctl"]}')
    (found,) = find()
    assert (list_card_nodes(found), found.profile.node_nodes) == (["/dev/oem0"], ("/dev/oemctl",))


@pytest.mark.parametrize("text", ["{", '{"mainDevice": 3}', '{"mainDevice": ["/dev/{0}"]}'])
def test_names_of_device_nodes_that_cannot_be_read_are_an_error_and_not_the_usual_names(host, find, text):
    host.add("enflame", 1, "S60")
    host.write(TOPSCLOUD, text)
    with pytest.raises(DevicePluginError, match=r"topscloud\.json"):
        find()


def test_the_older_drivers_folder_is_read(host, find):
    folder = host.find_device_folder(host.add("enflame", 1, "S60").cards[0].bdf)
    (folder / "enflame").rename(folder / "zixiao")
    assert find()[0].minor == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_bus_that_cannot_be_listed_is_an_error_and_not_a_host_without_cards(host, find):
    folder = host.root / "sys/bus/pci/devices"
    folder.chmod(0)
    with pytest.raises(DevicePluginError, match="cannot list "):
        find()


def test_a_bus_that_is_no_folder_is_an_error(host, find):
    folder = host.root / "sys/bus/pci/devices"
    folder.rmdir()
    folder.touch()
    with pytest.raises(DevicePluginError, match="cannot list "):
        find()


def test_an_fpga_is_given_whole_and_the_function_that_flashes_it_is_none(host, find):
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
