"""One golden inventory per vendor; ACCELKIT_WRITE_GOLDEN=1 writes them anew."""

import os
from pathlib import Path

import msgspec
import pytest

from accelkit.model.inventory import Inventory, decode_inventory, encode_inventory
from accelkit.node.device_plugin.container_response import build_environment, list_card_nodes
from accelkit.node.discovery import compute_topology

GOLDEN = Path(__file__).parent / "golden"
HOSTS = {
    "nvidia": [("nvidia", 8, "H200")],
    "amd": [("amd", 4, "MI300X")],
    "intel": [("intel", 2, "Max 1550"), ("intel", 1, "B580"), ("intel", 1, "UHD 770")],
    "gaudi": [("gaudi", 8, "Gaudi2")],
    "enflame": [("enflame", 2, "S60")],
    "xilinx": [("xilinx", 2, "U250")],
    "mixed": [("nvidia", 1, "T4"), ("amd", 2, "W7900"), ("enflame", 1, "I20")],
}


@pytest.mark.parametrize("name", HOSTS)
def test_inventory_of_host_matches_golden_file(host, find, name):
    for vendor, count, model in HOSTS[name]:
        host.add(vendor, count, model)
    found = find()
    inventory = Inventory(2**30, tuple(each.card for each in found), topology=compute_topology(host.root, found))
    assert decode_inventory(encode_inventory(inventory)) == inventory
    whole = {
        "inventory": inventory,
        "nodes": {each.card.id: list_card_nodes(each) for each in found},
        "environment": [build_environment(each.profile, [each]) for each in found],
    }
    seen = msgspec.json.format(msgspec.json.encode(whole, order="deterministic"), indent=2).decode() + "\n"
    path = GOLDEN / f"{name}.json"
    if os.environ.get("ACCELKIT_WRITE_GOLDEN"):
        path.write_text(seen)
    assert seen == path.read_text()
