import asyncio
import contextlib

import pytest
from device_names import unit, units
from support.grpc_calls import Context, RefusedError
from support.kubelets import PluginPods, PodResources, build_allocation, build_preference

from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.model.keys import MEMORY_VARIABLE
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node.assigned_pod import AssignedPod
from accelkit.node.device_plugin import plugin as module
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation
from accelkit.node.devices import DeviceIds
from accelkit.node.discovery import FoundCard
from accelkit.vendors.profiles import load_profiles

MEMORY = "accelkit.io/memory"
WHOLE = "accelkit.io/cards"
CARD = FoundCard(Card("a", "v", "m", 16), 0, 0, load_profiles()["simulated"])


def pod(name, amount, units):
    return assigned(name, {"c": Share("a", amount)}, {"c": units}, unit_bytes=amount // units)


def assigned(name, shares, units, *, unit_bytes=1):
    assignment = Assignment({container: (share,) for container, share in shares.items()})
    written = {container: share.memory_bytes for container, share in shares.items()}
    return AssignedPod(
        f"uid-{name}", "d", name, ("", name), tuple(shares), assignment, units, unit_bytes, written_bytes=written
    )


def ids(first, count):
    return units("a", first, count)


REQUEST_WHOLE = build_allocation(["a"])


class Kubelet(PodResources):
    """One plugin, and what containers hold."""

    def __init__(self, tmp_path, monkeypatch, *, whole=False, environment=None):
        super().__init__()
        self.pods = PluginPods()
        self.counted = []
        self.allocations = {MEMORY: PreferredAllocation(whole=False), WHOLE: PreferredAllocation(whole=True)}
        self.plugin = self.plug(
            tmp_path,
            self.pods,
            whole=whole,
            allocations=self.allocations,
            count=self.counted.append,
            environment=environment or {},
        )
        monkeypatch.setattr(module, "list_pod_resources", self.list)

    @staticmethod
    def plug(tmp_path, pods, *, whole, allocations, **rest):
        own, other = (WHOLE, MEMORY) if whole else (MEMORY, WHOLE)
        given = {"allocations": allocations[own], "other": (other, allocations[other])}
        return DevicePlugin(tmp_path, resource=own, whole=whole, pods=pods, **given, **rest)

    async def ask(self, device_ids):
        return (await self.plugin.Allocate(build_allocation(device_ids), Context())).container_responses[0]

    async def allocate(self, device_ids):
        return (await self.ask(device_ids)).envs[MEMORY_VARIABLE]


@pytest.fixture
def kubelet(tmp_path, monkeypatch):
    return Kubelet(tmp_path, monkeypatch)


async def test_memory_of_allocated_devices_uses_advertised_unit(kubelet):
    kubelet.pods.listed = [pod("p", 8, 2)]
    await kubelet.plugin.advertise([CARD], 4)
    assert await kubelet.allocate(ids(0, 2)) == "8"


async def test_held_devices_keep_their_memory_after_change_to_finer_unit(kubelet):
    kubelet.pods.listed = [pod("old", 8, 2), pod("new", 9, 9), pod("less", 8, 8)]
    kubelet.hold("old", ids(0, 2))
    await kubelet.plugin.advertise([CARD], 1)
    with pytest.raises(RefusedError, match="card a would be over capacity: containers would hold 17 of its 16 bytes"):
        await kubelet.allocate(ids(2, 9))
    assert await kubelet.allocate(ids(2, 8)) == "8"


async def test_pending_allocation_counts_before_kubelet_report(kubelet):
    kubelet.pods.listed = [pod("old", 8, 2)]
    await kubelet.plugin.advertise([CARD], 4)
    await kubelet.allocate(ids(0, 2))
    await kubelet.plugin.advertise([CARD], 1)
    kubelet.reachable = False
    kubelet.pods.listed.append(pod("new", 15, 15))
    with pytest.raises(RefusedError, match="over capacity"):
        await kubelet.allocate(ids(2, 15))
    del kubelet.pods.listed[0]
    assert await kubelet.allocate(ids(2, 15)) == "15", "the pod with the pending answer was deleted"


async def test_unassigned_pod_does_not_block_card_after_kubelet_report(kubelet, tmp_path):
    whole = Kubelet.plug(tmp_path, kubelet.pods, whole=True, allocations=kubelet.allocations)
    kubelet.pods.unassigned = {"uid-past"}
    for plugin in (kubelet.plugin, whole):
        await plugin.advertise([CARD], 1)
    await whole.Allocate(REQUEST_WHOLE, Context())
    with pytest.raises(RefusedError, match=r"card a would be over capacity: another pod holds it whole"):
        await kubelet.allocate(ids(0, 8))
    reported = PodResources()
    reported.hold("past", ["a"], WHOLE)
    for plugin in (kubelet.plugin, whole):
        plugin.settle(reported.answer)
    assert await kubelet.allocate(ids(0, 8)) == "8", "the kubelet reported it, and does not report it any more"


async def test_pod_deleted_during_admission_does_not_block_card(kubelet, tmp_path):
    whole = Kubelet.plug(tmp_path, kubelet.pods, whole=True, allocations=kubelet.allocations)
    for plugin in (kubelet.plugin, whole):
        await plugin.advertise([CARD], 1)
    kubelet.pods.answers = False
    await whole.Allocate(REQUEST_WHOLE, Context())
    with pytest.raises(RefusedError, match="another pod holds it whole"):
        await kubelet.allocate(ids(0, 8))
    kubelet.pods.answers = True
    kubelet.allocations[WHOLE].settle([], set(), {"a"})
    await whole.Allocate(REQUEST_WHOLE, Context())
    assert await kubelet.allocate(ids(0, 8)) == "8", "the API server has no pod that could have it"


async def test_pod_assigned_in_former_unit_is_refused(kubelet):
    kubelet.pods.listed = [pod("late", 8, 2)]
    await kubelet.plugin.advertise([CARD], 1)
    with pytest.raises(RefusedError, match="pod d/late was assigned units of 4 B, but this node now has units of 1 B"):
        await kubelet.allocate(ids(0, 2))


@pytest.mark.parametrize("whole", [False, True])
async def test_card_assigned_through_other_resource_is_refused_without_kubelet_report(tmp_path, monkeypatch, whole):
    kubelet = Kubelet(tmp_path, monkeypatch, whole=whole)
    kubelet.reachable = False
    kubelet.pods.listed = [assigned("there", {"c": Share("a", 16, whole=not whole)}, {})]
    await kubelet.plugin.advertise([CARD], 4)
    why = "d/there shares its memory" if whole else "d/there holds it whole"
    with pytest.raises(RefusedError, match=why):
        await kubelet.ask(["a"] if whole else ids(0, 1))
    assert kubelet.counted == ["refused"]


async def test_card_assigned_through_same_resource_is_granted_without_kubelet_report(kubelet):
    kubelet.reachable = False
    kubelet.pods.listed = [pod("p", 8, 2)]
    await kubelet.plugin.advertise([CARD], 4)
    assert await kubelet.allocate(ids(0, 2)) == "8"
    assert kubelet.counted == ["granted"]


DIALECT = {"POD": "{pod}", "CONTAINER": "{container}"}


async def test_dialect_variables_have_amounts_of_container_and_pod(tmp_path, monkeypatch):
    kubelet = Kubelet(tmp_path, monkeypatch, environment=DIALECT)
    card = FoundCard(Card("a", "v", "m", 16, minor=0), 0, 0, load_profiles()["simulated"])
    both = {"c": Share("a", 4), "d": Share("a", 6)}
    kubelet.pods.listed = [assigned("other", {"c": Share("a", 1)}, {"c": 1}), assigned("p", both, {"c": 4, "d": 6})]
    await kubelet.plugin.advertise([card], 1)
    environment = (await kubelet.ask(ids(0, 4))).envs
    assert (environment["POD"], environment["CONTAINER"]) == ("10", "4")
    unknown = (await kubelet.ask(ids(4, 3))).envs
    assert (unknown["POD"], unknown["CONTAINER"]) == ("3", "3")


async def test_whole_card_response_has_no_dialect_variables(tmp_path, monkeypatch):
    kubelet = Kubelet(tmp_path, monkeypatch, whole=True, environment=DIALECT)
    card = FoundCard(Card("a", "v", "m", 16, minor=0), 0, 0, load_profiles()["simulated"])
    await kubelet.plugin.advertise([card], 1)
    assert not {*(await kubelet.ask(["a"])).envs} & {*DIALECT}


class Listener:
    """The kubelet's end of ListAndWatch, which reads on demand."""

    def __init__(self, plugin):
        self._stream = plugin.ListAndWatch(api.Empty(), None)

    async def take(self):
        return [device.ID for device in (await anext(self._stream)).devices]

    async def close(self):
        await self._stream.aclose()


async def is_done(task):
    """Return whether a task is done after all tasks that can run have run."""
    for _ in range(20):
        await asyncio.sleep(0)
    return task.done()


@pytest.fixture
def impatient(monkeypatch):
    """Let the plugin send each change at once, and wait for the kubelet longer than a test takes."""
    monkeypatch.setattr(module, "_RESEND_SECONDS", 0)
    monkeypatch.setattr(module, "_DELIVERY_SECONDS", 60)


@pytest.mark.usefixtures("impatient")
async def test_advertise_returns_after_kubelet_received_devices(kubelet):
    await kubelet.plugin.advertise([CARD], 16)
    listener = Listener(kubelet.plugin)
    assert await listener.take() == ids(0, 1)
    following = asyncio.create_task(listener.take())
    update = asyncio.create_task(kubelet.plugin.advertise([CARD], 8))
    assert await following == ids(0, 2)
    assert not await is_done(update), "the kubelet has not requested more, so it may not have read this"
    following = asyncio.create_task(listener.take())
    assert await is_done(update)
    following.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await following
    await listener.close()


@pytest.mark.usefixtures("impatient")
async def test_advertise_does_not_wait_for_kubelet_that_does_not_listen(kubelet):
    listener = Listener(kubelet.plugin)
    await listener.take()
    await listener.close()
    assert await is_done(asyncio.create_task(kubelet.plugin.advertise([CARD], 4)))


@pytest.mark.usefixtures("impatient")
async def test_unchanged_device_list_is_not_sent_again(kubelet, monkeypatch):
    monkeypatch.setattr(module, "_DELIVERY_SECONDS", 0)
    await kubelet.plugin.advertise([CARD], 16)
    listener = Listener(kubelet.plugin)
    await listener.take()
    following = asyncio.create_task(listener.take())
    await kubelet.plugin.advertise([CARD], 16)
    assert not await is_done(following)
    await kubelet.plugin.advertise([CARD], 4)
    assert await following == ids(0, 4)
    await listener.close()


@pytest.mark.usefixtures("impatient")
async def test_advertise_waits_only_briefly_for_kubelet_that_does_not_read(kubelet, monkeypatch):
    monkeypatch.setattr(module, "_DELIVERY_SECONDS", 0)
    listener = Listener(kubelet.plugin)
    await listener.take()
    await kubelet.plugin.advertise([CARD], 4)
    await listener.close()


async def test_offers_allocations_and_refusals_are_logged_with_the_pods_uid(kubelet, caplog):
    caplog.set_level("INFO")
    kubelet.pods.listed = [pod("p", 8, 2)]
    await kubelet.plugin.advertise([CARD], 4)
    for size in (2, 3):
        await kubelet.plugin.GetPreferredAllocation(build_preference(ids(0, 4), size), None)
    await kubelet.allocate(ids(0, 2))
    with pytest.raises(RefusedError):
        await kubelet.ask(["nothing of ours"])
    lines = [each.message.partition(" seconds")[0] for each in caplog.records if "resource=" in each.message]
    whom = "pod=d/p uid=uid-p container=c resource=accelkit.io/memory"
    given = f'cards={{"a":8}} devices=2 first_device={unit("a", 0)}'
    assert lines[:2] == [f"offered {whom} {given}", f"allocated {whom} {given}"]
    assert lines[2].startswith("allocation refused resource=accelkit.io/memory devices=1 reason=")
    assert len(lines) == 3


async def test_allocation_cost_does_not_grow_with_containers_admitted_together(kubelet, monkeypatch):
    count, found = 20, []
    find_card = DeviceIds.find_card
    monkeypatch.setattr(DeviceIds, "find_card", lambda self, each: found.append(each) or find_card(self, each))
    other = FoundCard(Card("b", "v", "m", 500), 1, 1, load_profiles()["simulated"])
    kubelet.pods.listed = [assigned("p", {f"c{n}": Share("a", 1) for n in range(16)}, {f"c{n}": 1 for n in range(16)})]
    kubelet.hold("other", units("b", 0, 500))
    await kubelet.plugin.advertise([CARD, other], 1)
    costs = []
    for number in range(16):
        found.clear()
        await kubelet.allocate([unit("a", number)])
        costs.append(len(found))
    assert costs[-1] <= costs[0] + count, costs
    assert costs[0] <= 500 + count, "each held device is read once"
