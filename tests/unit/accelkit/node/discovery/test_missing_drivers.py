from accelkit.node.discovery import discover
from accelkit.node.discovery.drivers import list_missing_drivers
from accelkit.sandbox.fake_host.host import FakeHost
from accelkit.vendors.profiles import load_profiles


def look(root):
    found = discover(root, load_profiles().values())
    return [card.card.bdf for card in found], list_missing_drivers(found)


def test_missing_drivers_are_reported_only_if_no_card_has_a_driver(tmp_path):
    host = FakeHost(tmp_path).add("nvidia", 2, "H100")
    places, missing = look(tmp_path)
    assert missing == []
    host.unbind(places[0])
    # Kept for a virtual machine, perhaps.
    assert look(tmp_path)[1] == []
    host.unbind(places[1])
    assert look(tmp_path)[1] == [f"card {bdf} (nvidia) is without a driver, but requires nvidia" for bdf in places]
    host.add("amd", 1, "MI300X")
    assert look(tmp_path)[1] == []


def test_host_without_cards_has_no_missing_drivers(tmp_path):
    assert look(tmp_path) == ([], [])
