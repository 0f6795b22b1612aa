import pytest
from device_names import units
from support.grpc_calls import Context, RefusedError
from support.kubelets import PluginPods, PodResources, build_allocation, build_preference

from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.node.assigned_pod import AssignedPod
from accelkit.node.device_plugin import plugin as module
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation
from accelkit.node.discovery import FoundCard
from accelkit.vendors.counted_dialects import list_device_resources
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.profiles import load_profiles

NATIVE = load_dialect("native")
MEMORY, WHOLE = NATIVE.resources.memory, NATIVE.resources.cards
CARDS = [FoundCard(Card(name, "v", "m", 16), 0, 0, load_profiles()["simulated"]) for name in "ab"]


class Node(PodResources):
    """An agent that serves native resources; pods of another dialect hold devices."""

    def __init__(self, folder):
        super().__init__()
        self.pods = PluginPods()
        allocations = {MEMORY: PreferredAllocation(whole=False), WHOLE: PreferredAllocation(whole=True)}
        self.plugins = {
            own: DevicePlugin(
                folder,
                resource=own,
                whole=own == WHOLE,
                pods=self.pods,
                allocations=allocations[own],
                other=(other, allocations[other]),
                counted=list_device_resources(NATIVE),
            )
            for own, other in ((MEMORY, WHOLE), (WHOLE, MEMORY))
        }

    def pod(self, name, resource, share, device_ids=None, *, unit_bytes=1, admitted=True):
        amount = 0 if share.whole else share.memory_bytes // unit_bytes
        self.pods.listed.append(
            AssignedPod(
                *(f"uid-{name}", "d", name, ("", name), ("c",)),
                Assignment({"c": (share,)}),
                {"c": amount} if amount else {},
                unit_bytes,
                {"c": 0 if share.whole else share.memory_bytes},
                admitted=admitted,
                limits={"c": frozenset({resource})},
            )
        )
        if device_ids:
            self.hold(name, device_ids, resource)

    async def allocate(self, resource, device_ids):
        await self.plugins[resource].Allocate(build_allocation(device_ids), Context())

    async def prefer(self, resource, available, size):
        answer = await self.plugins[resource].GetPreferredAllocation(build_preference(available, size), Context())
        return list(answer.container_responses[0].deviceIDs)


@pytest.fixture
async def node(tmp_path, monkeypatch):
    node = Node(tmp_path)
    monkeypatch.setattr(module, "list_pod_resources", node.list)
    for plugin in node.plugins.values():
        await plugin.advertise(CARDS, 1)
    return node


@pytest.mark.parametrize("reachable", [True, False])
async def test_memory_held_through_another_dialect_is_not_allocated(node, reachable):
    node.pod("p", "enflame.com/gcu-memory", Share("a", 10), units("a", 0, 10))
    node.reachable = reachable
    with pytest.raises(RefusedError, match="card a would be over capacity: containers would hold 17 of its 16 bytes"):
        # The same IDs of another resource are different devices for the kubelet.
        await node.allocate(MEMORY, units("a", 0, 7))
    await node.allocate(MEMORY, units("a", 0, 6))


async def test_devices_of_another_dialect_count_in_unit_of_their_pod(node):
    node.pod("p", "enflame.com/gcu-memory", Share("a", 8), units("a", 0, 2), unit_bytes=4)
    with pytest.raises(RefusedError, match="containers would hold 17 of its 16 bytes"):
        await node.allocate(MEMORY, units("a", 0, 9))


WHOLE_A, SHARED_A = Share("a", 16, whole=True), Share("a", 1)


@pytest.mark.parametrize("reachable", [True, False])
@pytest.mark.parametrize(
    ("held", "own", "reason"),
    [
        (("enflame.com/gcu-count", WHOLE_A, ["a"]), MEMORY, "holds it whole"),
        (("enflame.com/gcu-count", WHOLE_A, ["a"]), WHOLE, "holds it whole"),
        (("nvidia.com/gpu", WHOLE_A, ["a"]), WHOLE, "holds it whole"),
        (("aliyun.com/gpu-mem", SHARED_A, units("a", 0, 1)), WHOLE, "shares its memory"),
    ],
)
async def test_card_held_through_another_dialect_is_not_allocated(node, reachable, held, own, reason):
    node.pod("p", *held)
    node.reachable = reachable
    chosen = {MEMORY: (units("a", 0, 1), units("b", 0, 1)), WHOLE: (["a"], ["b"])}[own]
    with pytest.raises(RefusedError, match=f"card a would be over capacity: d/p {reason}"):
        await node.allocate(own, chosen[0])
    await node.allocate(own, chosen[1])


async def test_cards_held_through_foreign_device_plugin_are_not_counted(node):
    node.hold("theirs", ["a"], "nvidia.com/gpu")
    await node.allocate(WHOLE, ["a"])


async def test_cards_filled_through_another_dialect_are_not_offered(node):
    node.pod("p", "enflame.com/gcu-memory", Share("a", 10), units("a", 0, 10))
    assert await node.prefer(MEMORY, units("a", 0, 16) + units("b", 0, 16), 7) == units("b", 0, 7)
    node.pod("q", "enflame.com/gcu-count", Share("b", 16, whole=True), ["b"])
    assert await node.prefer(MEMORY, units("a", 0, 16) + units("b", 0, 16), 7) == []
    assert await node.prefer(WHOLE, ["a", "b"], 1) == []


async def test_cards_assigned_to_pending_pod_of_another_dialect_are_not_offered(node):
    node.pod("p", "enflame.com/gcu-memory", Share("b", 7), admitted=False)
    node.pod("q", MEMORY, Share("a", 7), admitted=False)
    assert await node.prefer(MEMORY, units("b", 0, 16) + units("a", 0, 16), 7) == units("a", 0, 7)
