import pytest
from fake_api.server import FakeApi

from accelkit.install.unit_change import describe_request, plan_unit_change
from accelkit.install.workloads import Workload
from accelkit.kube.paths import NODES, PODS
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION

GIB, MIB = 2**30, 2**20
MEMORY = ["accelkit.io/memory"]
POD = {
    "metadata": {"name": "p", "namespace": "d"},
    "spec": {"containers": [{"name": "c", "resources": {"limits": {"accelkit.io/memory": "8"}}}]},
    "status": {"phase": "Pending"},
}


def cluster(**inventories):
    """A cluster with a waiting pod, and nodes with these inventories."""
    api = FakeApi()
    api.store(PODS, POD)
    for name, text in inventories.items():
        api.store(NODES, {"metadata": {"name": name, "annotations": {INVENTORY_ANNOTATION: text}}})
    return api


def inventory(unit, gib=16, **more):
    return encode_inventory(Inventory(unit, (Card("a", "v", "m", gib * GIB),), **more))


@pytest.mark.parametrize(
    ("text", "before", "waiting"),
    [("unreadable", [], []), (inventory(GIB), [GIB], []), (inventory(MIB, next_unit_bytes=GIB), [GIB], ["n"])],
    ids=["first install", "same unit", "node that waits for it"],
)
async def test_unchanged_unit_affects_no_workloads(text, before, waiting):
    change = await plan_unit_change(cluster(n=text), GIB, MEMORY)
    assert (change.refusals, change.finer, change.waiting, change.workloads) == ({}, [], waiting, ())
    assert change.before == before


async def test_adopted_workloads_use_former_unit_until_first_inventory():
    change = await plan_unit_change(cluster(), GIB, MEMORY, former_unit_bytes=MIB)
    assert (change.before, len(change.workloads)) == ([MIB], 1)
    change = await plan_unit_change(cluster(), MIB, MEMORY, former_unit_bytes=MIB)
    assert (change.before, change.workloads) == ([MIB], ())
    change = await plan_unit_change(cluster(n=inventory(GIB)), GIB, MEMORY, former_unit_bytes=MIB)
    assert (change.before, change.workloads) == ([GIB], ())


async def test_unit_change_lists_nodes_and_workloads():
    nodes = {"a": inventory(256 * MIB), "b": inventory(GIB), "c": inventory(512 * MIB)}
    change = await plan_unit_change(cluster(**nodes), 512 * MIB, MEMORY)
    assert (change.finer, change.waiting) == (["b"], ["a"])
    assert change.workloads == [Workload("d", "Pod", "p", (("c", "8"),))]


async def test_nodes_with_too_many_devices_refuse_the_unit():
    change = await plan_unit_change(cluster(big=inventory(GIB, gib=1000), small=inventory(GIB)), MIB, MEMORY)
    assert list(change.refusals) == ["big"]
    assert "1,024,000 devices" in change.refusals["big"]


def test_request_description_contains_amounts_in_both_units():
    workload = Workload("d", "Job", "j", (("c", "8"), ("x", "soon")))
    assert describe_request(workload, [MIB, GIB], 256 * MIB) == (
        "Job d/j: c requests 8: 8 MiB or 8 GiB until now, 2 GiB in units of 256MiB; "
        "x requests soon: soon units of 1MiB or soon units of 1GiB until now, soon units of 256MiB in units of 256MiB"
    )
