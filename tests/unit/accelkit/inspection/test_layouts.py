import msgspec
import pytest
from support.requests import build_inventory

from accelkit.inspection.inspection import assemble, view
from accelkit.inspection.layouts import build_aliyun_table
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share
from accelkit.model.pod import PodRef
from accelkit.model.request import Kind

GIB = 2**30


def test_aliyun_table_matches_kubectl_inspect_gpushare():
    ledger = Ledger(unit_bytes=GIB)
    ledger.put_node("a", build_inventory("x", "y", memory=15 * GIB, unit_bytes=GIB))
    ledger.put_node("b", build_inventory("z", memory=15 * GIB, unit_bytes=GIB))
    ledger.confirm(PodRef("d", "p", "u"), "a", Assignment({"c": (Share("y", 9 * GIB),)}), [("c", Kind.APP)])
    assert build_aliyun_table(view(ledger.list_nodes())).splitlines() == [
        "NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  GPU Memory(GiB)",
        "a     -          0/15                   9/15                   9/30",
        "b     -          0/15                   -                      0/15",
        "-" * 78,
        "Allocated/Total GPU Memory In Cluster:",
        "9/45 (20%)",
    ]


def test_node_address_is_printed():
    ledger = Ledger(unit_bytes=GIB)
    ledger.put_node("a", build_inventory("x", memory=15 * GIB, unit_bytes=GIB))
    (node,) = view(ledger.list_nodes()).nodes
    shown = build_aliyun_table(assemble([msgspec.structs.replace(node, address="10.0.0.1")]))
    assert shown.splitlines()[1].split() == ["a", "10.0.0.1", "0/15", "0/15"]


@pytest.mark.parametrize(("unit", "name", "amount"), [(GIB, "GiB", 8), (2**28, "256MiB", 32)])
def test_amounts_are_printed_in_the_memory_unit_of_the_cluster(unit, name, amount):
    ledger = Ledger(unit_bytes=unit)
    ledger.put_node("a", build_inventory("x", memory=8 * GIB, unit_bytes=unit))
    table = build_aliyun_table(view(ledger.list_nodes())).splitlines()
    assert table[0].endswith(f"GPU Memory({name})")
    assert (table[1].split()[-1], table[-1]) == (f"0/{amount}", f"0/{amount} (0%)")


def test_cluster_without_cards_prints_zero_totals_in_gib():
    assert build_aliyun_table(assemble([])).splitlines() == [
        "NAME  IPADDRESS  GPU Memory(GiB)",
        "-" * 32,
        "Allocated/Total GPU Memory In Cluster:",
        "0/0 (0%)",
    ]
