from __future__ import annotations

from accelkit.inspection.inspection import view
from accelkit.inspection.layouts import build_aliyun_table
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import Kind

GIB = 2**30


def test_the_table_of_kubectl_inspect_gpushare():
    ledger = Ledger(unit_bytes=GIB)
    ledger.put_node("a", Inventory(GIB, (Card("x", "v", "m", 15 * GIB), Card("y", "v", "m", 15 * GIB))))
    ledger.put_node("b", Inventory(GIB, (Card("z", "v", "m", 15 * GIB),)))
    ledger.confirm(PodRef("d", "p", "u"), "a", Assignment({"c": (Share("y", 9 * GIB),)}), [("c", Kind.APP)])
    assert build_aliyun_table(view(ledger.list_nodes())).splitlines() == [
        "NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  GPU Memory(GiB)",
        "a     -          0/15                   9/15                   9/30",
        "b     -          0/15                   -                      0/15",
        "-" * 78,
        "Allocated/Total GPU Memory In Cluster:",
        "9/45 (20%)",
    ]
