from datetime import UTC, datetime

import pytest
from device_names import unit
from fake_api.server import FakeApi

from accelkit.errors import ApiError, DevicePluginError
from accelkit.kube.paths import NODES, build_node_path
from accelkit.model.assignment import Share
from accelkit.model.card import Card
from accelkit.model.inventory import (
    MAX_FORMER_UNITS,
    FormerUnit,
    Inventory,
    decode_inventory,
    encode_inventory,
    find_unit,
)
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.node import advertising
from accelkit.node._proto import podresources_pb2 as resources
from accelkit.node.advertising import Advertising, choose_unit
from accelkit.node.assigned_pod import SharingPod
from accelkit.node.discovery import FoundCard
from accelkit.node.own_node import OwnNode
from accelkit.vendors.profiles import load_profiles

GIB, MIB = 2**30, 2**20
MEMORY = "accelkit.io/memory"
# 2026-01-01T00:00:00Z
NOW = 1_767_225_600
STARTED = "2026-01-01T00:00:00Z"
PROFILE = load_profiles()["simulated"]


def found(name, memory):
    return FoundCard(Card(name, "v", "m", memory), 0, 0, PROFILE)


def pod(unit, *, admitted=True):
    return SharingPod("d", "p", unit, STARTED if admitted else None)


class Node:
    """One node's API, plugin, kubelet and pods."""

    resource = MEMORY
    offered = reported = True

    def __init__(self, tmp_path, monkeypatch):
        self.api = FakeApi()
        self.api.store(NODES, {"metadata": {"name": "n", "annotations": {}}})
        self.advertised = []
        self.pods = []
        self.learnt = []
        # Almost a whole second, so the agent waits for the rest of it.
        self.now = NOW + 0.99
        self.after_refresh = None
        self.root = tmp_path
        monkeypatch.setattr(advertising, "list_pod_resources", self._held)

    def agent(self, unit, *, former=None):
        # A long time passes between two readings of the node.
        node = OwnNode(self.api, "n", clock=iter(range(0, 10**6, 1000)).__next__)
        return Advertising(
            node,
            self.root,
            cluster_unit_bytes=unit,
            resources=[MEMORY],
            pods=self,
            plugins=[self],
            former_unit_bytes=former,
            clock=lambda: self.now,
        )

    def publish(self, inventory):
        self.annotations[INVENTORY_ANNOTATION] = encode_inventory(inventory)

    @property
    def published(self):
        return decode_inventory(self.annotations[INVENTORY_ANNOTATION])

    @property
    def annotations(self):
        return self.api.objects[build_node_path("n")]["metadata"]["annotations"]

    @property
    def writes(self):
        return len(self.api.writes)

    async def advertise(self, cards, unit_bytes, in_use):
        advertised = [each.card.id for each in cards], unit_bytes
        if not self.advertised or self.advertised[-1] != advertised or in_use:
            self.advertised.append(advertised)

    def list_sharing(self):
        return self.pods

    def set_cards(self, cards):
        self.learnt.append(cards)

    async def refresh(self):
        if self.after_refresh is not None:
            self.pods = self.after_refresh

    async def _held(self, _root):
        answer = resources.ListPodResourcesResponse()
        for each in self.pods:
            if each.started_at:
                container = answer.pod_resources.add(name=each.name, namespace=each.namespace).containers.add(name="c")
                container.devices.add(resource_name=MEMORY, device_ids=[unit("a", 0), unit("a", 1)])
        return answer


@pytest.fixture
def node(tmp_path, monkeypatch):
    return Node(tmp_path, monkeypatch)


async def test_cards_are_advertised_and_published_in_the_clusters_unit(node):
    assert await node.agent(4).update([found("a", 16)])
    assert node.advertised == [(["a"], 4)]
    assert node.published == Inventory(4, (Card("a", "v", "m", 16),))


async def test_an_unchanged_inventory_is_not_written_again(node):
    agent = node.agent(4)
    for _ in range(2):
        assert await agent.update([found("a", 16)])
    assert (len(node.advertised), node.writes) == (1, 1)


async def test_a_changed_card_is_advertised_while_the_api_server_is_unreachable(node):
    agent = node.agent(4)
    await agent.update([found("a", 16)])
    node.api.fail(ApiError("away"), "GET", times=None)
    await agent.update([found("a", 16), found("b", 16)])
    assert node.advertised[-1] == (["a", "b"], 4)


async def test_nothing_is_advertised_before_the_node_was_read(node):
    node.api.fail(ApiError("away"), "GET", times=None)
    agent = node.agent(4)
    assert not await agent.update([found("a", 16)])
    assert not agent.started


async def test_coarser_unit_waits_for_pods_and_is_published_as_next_unit(node):
    node.publish(Inventory(1, (Card("a", "v", "m", 16),)))
    node.pods = [pod(1)]
    agent = node.agent(4)
    assert not await agent.update([found("a", 16)])
    assert node.advertised == [(["a"], 1)]
    assert (node.published.unit_bytes, node.published.next_unit_bytes, node.published.problem) == (1, 4, "")
    node.pods = []
    assert await agent.update([found("a", 16)])
    assert node.advertised[-1] == (["a"], 4)
    assert (node.published.unit_bytes, node.published.next_unit_bytes) == (4, 0)


async def test_finer_unit_waits_for_undelivered_binding(node):
    node.publish(Inventory(4, (Card("a", "v", "m", 16),)))
    node.after_refresh = [pod(4, admitted=False)]
    agent = node.agent(1)
    assert not await agent.update([found("a", 16)])
    assert node.advertised == [(["a"], 4)]
    node.pods = node.after_refresh = [pod(4)]
    assert await agent.update([found("a", 16)])
    assert node.advertised[-1] == (["a"], 1)


async def test_unit_is_kept_while_kubelet_does_not_answer(node, monkeypatch):
    async def away(_root):
        raise DevicePluginError("no answer")

    monkeypatch.setattr(advertising, "list_pod_resources", away)
    node.publish(Inventory(4, ()))
    assert not await node.agent(1).update([found("a", 16)])
    assert node.published.unit_bytes == 4


async def test_too_many_devices_are_not_advertised_and_the_reason_is_published(node):
    agent = node.agent(1)
    assert not await agent.update([found("a", 10**9)])
    assert not agent.started
    assert (node.published.unit_bytes, node.published.configured_unit_bytes) == (1, 1)
    assert "1,000,000,000 devices" in node.published.problem
    assert "choose at least " in node.published.problem


async def test_node_keeps_its_unit_if_new_unit_has_too_many_devices(node):
    node.publish(Inventory(10**6, (Card("a", "v", "m", 10**9),)))
    agent = node.agent(1)
    assert not await agent.update([found("a", 10**9)])
    assert node.advertised == [(["a"], 10**6)]
    assert (node.published.unit_bytes, node.published.configured_unit_bytes) == (10**6, 1)
    assert "devices" in node.published.problem


@pytest.mark.parametrize("memory", [16, 10**9])
async def test_topology_and_libraries_are_published_with_the_cards(node, memory):
    await node.agent(4).update([found("a", memory)], topology=("X",), library_problems=("it is silent",), cdi=("v/c",))
    published = node.published
    assert (published.topology, published.library_problems, published.cdi) == (("X",), ("it is silent",), ("v/c",))


async def test_advertised_cards_have_their_connections(node):
    agent = node.agent(4)
    await agent.update([found("a", 16), found("b", 16)], topology=("XS", "SX"))
    for cards in (agent.list_node_cards(), node.learnt[-1]):
        assert cards.links.names[0][1] == "PCI switch"


async def test_uncounted_amounts_are_published_until_kubelet_answers(node):
    held = (Share("a", 2),)
    await node.agent(4).update([found("a", 16)], uncounted=held)
    assert node.published.uncounted == held
    again = node.agent(4)
    await again.update([found("a", 16)], uncounted=None)
    assert node.published.uncounted == held
    await again.update([found("a", 16)], uncounted=())
    assert node.published.uncounted == ()


async def test_a_deleted_inventory_is_written_again(node):
    agent = node.agent(4)
    await agent.update([found("a", 16)])
    node.annotations.clear()
    await agent.update([found("a", 16)])
    assert node.published.unit_bytes == 4


def sharing(unit, *, admitted=True):
    return SharingPod("d", "p", unit, STARTED if admitted else None)


HOLDS, NOBODY = [("d", "p")], ()
UNITS = {
    "finer without pods": (MIB, GIB, NOBODY, NOBODY, MIB),
    "coarser without pods": (GIB, MIB, NOBODY, NOBODY, GIB),
    "the first one": (GIB, None, NOBODY, NOBODY, GIB),
    "finer applies at once": (MIB, GIB, [sharing(GIB)], HOLDS, MIB),
    "finer waits for a pod between binding and admission": (MIB, GIB, [sharing(GIB, admitted=False)], NOBODY, GIB),
    "coarser waits for the pods of the finer": (GIB, MIB, [sharing(MIB)], HOLDS, MIB),
    "coarser does not wait for its own pods": (GIB, MIB, [sharing(GIB)], HOLDS, GIB),
    "a unit in no history": (GIB, None, [sharing(GIB)], HOLDS, GIB),
    "a pod in a finer unit than the node ever had": (256 * MIB, GIB, [sharing(MIB)], HOLDS, 256 * MIB),
    "devices of an unknown amount, finer": (MIB, GIB, NOBODY, HOLDS, GIB),
    "devices of an unknown amount, coarser": (GIB, MIB, NOBODY, HOLDS, MIB),
    "a kubelet that does not say, finer": (MIB, GIB, NOBODY, None, GIB),
    "a kubelet that does not say, coarser": (GIB, MIB, NOBODY, None, MIB),
}


@pytest.mark.parametrize(("unit", "present", "pods", "holders", "chosen"), UNITS.values(), ids=UNITS)
def test_unit_changes_only_if_no_pod_is_read_in_wrong_unit(unit, present, pods, holders, chosen):
    assert choose_unit(unit, present, pods, holders) == chosen


async def test_former_unit_is_published_with_time_of_change(node):
    node.publish(Inventory(4, (Card("a", "v", "m", 16),)))
    node.pods = [pod(4)]
    assert await node.agent(1).update([found("a", 16)])
    assert (node.published.unit_bytes, node.published.former_units) == (1, (FormerUnit(4, NOW),))
    assert (node.learnt[-1].unit_bytes, node.learnt[-1].former_units) == (1, (FormerUnit(4, NOW),))


async def test_former_unit_without_pods_is_removed_from_history(node):
    history = (FormerUnit(4, NOW - 20), FormerUnit(2, NOW - 10), FormerUnit(8, NOW + 10))
    node.publish(Inventory(1, (Card("a", "v", "m", 16),), former_units=history))
    node.pods = [SharingPod("d", "p", 2, "2025-12-31T23:59:45Z")]
    agent = node.agent(1)
    assert await agent.update([found("a", 16)])
    assert node.published.former_units == history[1:2]
    node.pods = []
    assert await agent.update([found("a", 16)])
    assert node.published.former_units == ()


async def test_former_units_are_ordered_after_clock_was_set_back(node):
    node.publish(Inventory(4, (Card("a", "v", "m", 16),), former_units=(FormerUnit(8, NOW + 60),)))
    node.pods = [SharingPod("d", "p", 8, STARTED)]
    assert await node.agent(1).update([found("a", 16)])
    assert node.published.former_units == (FormerUnit(8, NOW + 60), FormerUnit(4, NOW + 60))


@pytest.mark.parametrize("ahead", [-3600, 0, 3600])
async def test_pods_are_read_in_their_unit_with_any_node_clock(node, ahead):
    """The kubelet writes starts by the clock of the node, which is also the clock of the agent."""
    node.now += ahead
    node.publish(Inventory(4, (Card("a", "v", "m", 16),)))

    def start(seconds):
        return datetime.fromtimestamp(NOW + ahead + seconds, UTC).isoformat()

    node.pods = [SharingPod("d", "p", 4, start(-1))]
    assert await node.agent(1).update([found("a", 16)])
    inventory = node.published
    units = [find_unit(inventory.unit_bytes, inventory.former_units, start(seconds)) for seconds in (-1, 0, 1, 3599)]
    assert units == [4, 4, 1, 1]


async def test_node_without_inventory_publishes_configured_former_unit(node):
    node.pods = [SharingPod("d", "p", 2, "2025-12-31T23:59:00Z")]
    assert await node.agent(4, former=2).update([found("a", 16)])
    assert (node.published.unit_bytes, node.published.former_units) == (4, (FormerUnit(2, NOW),))


async def test_node_with_inventory_ignores_configured_former_unit(node):
    node.publish(Inventory(4, (Card("a", "v", "m", 16),)))
    node.pods = [pod(4)]
    assert await node.agent(4, former=2).update([found("a", 16)])
    assert node.published.former_units == ()
    node.annotations[INVENTORY_ANNOTATION] = "garbage"
    assert await node.agent(4, former=2).update([found("a", 16)])
    assert node.published.former_units == ()


async def test_unit_is_kept_if_former_units_in_use_reach_limit(node):
    history = tuple(FormerUnit(2, NOW + number) for number in range(MAX_FORMER_UNITS))
    node.publish(Inventory(4, (Card("a", "v", "m", 16),), former_units=history))
    node.pods = [SharingPod("d", f"p{n}", 4, f"2026-01-01T00:00:0{n}Z") for n in range(MAX_FORMER_UNITS)]
    assert not await node.agent(1).update([found("a", 16)])
    assert (node.published.unit_bytes, len(node.published.former_units)) == (4, MAX_FORMER_UNITS)


async def test_withheld_resources_are_published_with_the_cards_until_they_are_offered(node):
    agent = node.agent(GIB)
    node.offered = False
    await agent.update([found("a", 16 * GIB)])
    assert node.published.withheld == (MEMORY,)
    assert [card.id for card in node.published.cards] == ["a"]
    node.reported = False
    await agent.update([found("a", 17)])
    assert "withheld" not in node.annotations[INVENTORY_ANNOTATION]
    node.offered = node.reported = True
    await agent.update([found("a", 16 * GIB)])
    assert "withheld" not in node.annotations[INVENTORY_ANNOTATION]
