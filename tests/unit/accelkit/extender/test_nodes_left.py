"""Filter leaves the nodes that the policy likes best, where more fit."""

import msgspec
import pytest
from support.pods import REFUSED, build_pod
from support.requests import build_inventory, build_request

from accelkit.extender.verbs import Verbs
from accelkit.extender.wire import Args
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.pending_pod import PendingPod
from accelkit.model.pod import PodRef
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects

NODES = 20
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}


def pod(memory=10, *, spec=None, status=None):
    whole = build_pod("p", memory=str(memory), status=status, **(spec or {}))
    return msgspec.json.decode(msgspec.json.encode(whole), type=PendingPod)


class World:
    """Nodes n0, n1… of which each has one unit more in use than the one before."""

    def __init__(self, most, policy=Policy.BINPACK):
        self.ledger = Ledger(unit_bytes=1)
        self.names = [f"n{number}" for number in range(NODES)]
        for number, name in enumerate(self.names):
            self.ledger.put_node(name, build_inventory(f"{name}-0", memory=100))
            if number:
                self.ledger.reserve(PodRef("d", name, name), name, build_request(number), Policy.BINPACK)
        self.verbs = Verbs(self.ledger, LedgerFeed(self.ledger, load_dialects(["native"])), policy, most_nodes=most)

    async def filter(self, asked, names=None):
        return await self.verbs.filter(Args(asked, NodeNames=names or self.names))


@pytest.mark.parametrize(
    ("policy", "left"), [(Policy.BINPACK, ["n19", "n18", "n17"]), (Policy.SPREAD, ["n0", "n1", "n2"])]
)
async def test_filter_returns_best_nodes_of_the_policy(policy, left):
    found = await World(3, policy).filter(pod())
    assert (found.NodeNames, found.FailedNodes) == (left, None)


@pytest.mark.parametrize("policy", Policy)
async def test_every_policy_returns_the_configured_number_of_fitting_nodes(policy):
    found = await World(4, policy).filter(pod(85))
    assert len(found.NodeNames) == 4
    assert {int(name[1:]) for name in found.NodeNames} <= set(range(16))


async def test_equal_nodes_are_returned_in_order_of_registration():
    world = World(3)
    for name in world.names:
        world.ledger.release(name)
    assert (await world.filter(pod(), world.names[::-1])).NodeNames == ["n0", "n1", "n2"]


async def test_all_nodes_are_returned_if_limit_is_not_exceeded_or_zero():
    assert len((await World(NODES).filter(pod())).NodeNames) == NODES
    assert len((await World(0).filter(pod())).NodeNames) == NODES


@pytest.mark.parametrize(
    ("spec", "left"),
    [
        ({"affinity": {"nodeAffinity": PREFERRED}}, NODES),
        ({"affinity": {"podAffinity": PREFERRED}}, NODES),
        ({"affinity": {"podAntiAffinity": PREFERRED}}, NODES),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, NODES),
        ({"affinity": {"nodeAffinity": REQUIRED}}, 3),
        ({"affinity": None}, 3),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, 3),
    ],
)
async def test_all_nodes_are_returned_for_pod_with_node_preferences(spec, left):
    assert len((await World(3).filter(pod(spec=spec))).NodeNames) == left


async def test_all_nodes_and_reasons_are_returned_for_previously_refused_pod():
    found = await World(3).filter(pod(85, status=REFUSED))
    assert len(found.NodeNames) == 16
    assert found.FailedNodes.keys() == {"n16", "n17", "n18", "n19"}


async def test_reasons_are_returned_only_if_no_node_fits():
    world = World(3)
    assert (await world.filter(pod(85))).FailedNodes is None
    found = await world.filter(pod(101))
    assert found.NodeNames == []
    assert found.FailedNodes.keys() == set(world.names)


async def test_node_objects_are_returned_unchanged():
    world = World(2)
    nodes = {"items": [{"metadata": {"name": name}, "x": name} for name in world.names]}
    body = msgspec.json.encode({"Pod": msgspec.to_builtins(pod()), "Nodes": nodes})
    found = await world.verbs.filter(msgspec.json.decode(body, type=Args))
    kept = msgspec.json.decode(msgspec.json.encode(found))["Nodes"]["items"]
    assert sorted(each["x"] for each in kept) == ["n18", "n19"]
