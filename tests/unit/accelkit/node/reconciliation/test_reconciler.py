import asyncio

import msgspec
import pytest
from device_names import unit
from support.pods import build_container
from support.reconciled_nodes import ReconciledNode

from accelkit.errors import ApiError
from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.inventory import FormerUnit
from accelkit.model.pod import Pod
from accelkit.node._proto import podresources_pb2 as resources
from accelkit.node.devices import DeviceIds
from accelkit.node.node_cards import NodeCards
from accelkit.node.reconciliation.observed_assignment import ContainerDevices
from accelkit.node.reconciliation.snapshot import group_devices_by_pod
from accelkit.vendors.dialects import load_dialect

NATIVE = load_dialect("native")


class World(ReconciledNode):
    def annotate(self, name, annotations):
        self.find(name)["metadata"]["annotations"] |= annotations
        self.show(name)

    def pod(self, name, assigned, held, *, admitted=True, request="{}", amount=2, **ghosts):
        """A pod with two units on `assigned` that holds them on `held`."""
        shares = None if assigned is None else {"c": (Share(assigned, amount),), **ghosts}
        container, annotations = build_container({self.resource: "2"}), {"accelkit.io/request": request}
        self.put(name, container, assigned=shares, admitted=admitted, annotations=annotations)
        self.show(name)
        if held:
            number = name.encode()[0]
            self.held["d", name] = {"c": ContainerDevices(memory=[unit(held, 2 * number), unit(held, 2 * number + 1)])}

    def count_patches(self, name=""):
        """Count the requests to change a pod, including refused ones."""
        return sum(each.method == "PATCH" and each.path.endswith(name) for each in self.api.writes)

    def count(self, name, **labels):
        return self.metrics.registry.get_sample_value(f"accelkit_{name}_total", labels)

    @property
    def divergent(self):
        return self.metrics.registry.get_sample_value("accelkit_divergent_pods")


@pytest.fixture
def world():
    return World()


async def test_observed_devices_are_written_in_one_patch_with_event_and_metric(world):
    world.pod("p", "a", "b")
    assert await world.reconcile()
    assert [name for name, _ in world.written] == ["p"]
    assert world.find_cards("p") == {"c": ["b"]}
    assert world.events == [
        ("p", "AssignmentCorrected", "assigned c 2 B of card a; the kubelet allocated c 2 B of card b")
    ]
    assert world.count("assignment_corrections") == 1
    assert await world.reconcile()
    assert len(world.written) == 1


async def test_pod_bound_past_extender_is_recorded_with_held_devices(world):
    world.pod("p", None, "b")
    assert await world.reconcile()
    assert world.find_cards("p") == {"c": ["b"]}
    assert world.events == [
        ("p", "AssignmentRecorded", "bound without the extender; the kubelet allocated c 2 B of card b")
    ]
    assert (world.count("assignments_recorded"), world.count("assignment_corrections")) == (1, 0)


async def test_mark_of_pod_bound_past_extender_is_kept_in_later_corrections(world):
    world.pod("past-us", None, "a")
    world.pod("bound-by-us", "a", "b")
    assert await world.reconcile()
    world.held["d", "past-us"] = {"c": ContainerDevices(memory=[unit("b", 1), unit("b", 2)])}
    assert await world.reconcile()
    written = {(name, assignment.recorded is True) for name, assignment in world.written}
    assert written == {("past-us", True), ("bound-by-us", False)}
    assert world.find_cards("past-us") == {"c": ["b"]}


async def test_swapped_pods_remain_charged_during_correction(world):
    world.pod("p", "a", "b")
    world.pod("q", "b", "a")
    assert await world.reconcile()
    assert [(name, MOVING in each.containers) for name, each in world.written] == [
        ("p", True),
        ("q", True),
        ("p", False),
        ("q", False),
    ]
    assert (world.find_cards("p"), world.find_cards("q")) == ({"c": ["b"]}, {"c": ["a"]})
    assert len(world.events) == 2


async def test_swap_is_corrected_only_after_pending_pod_is_admitted(world):
    world.pod("p", "b", "a")
    world.pod("q", "a", None, admitted=False)
    assert not await world.reconcile()
    assert world.written == []
    world.pod("q", "a", "b")
    assert await world.reconcile()
    assert (world.find_cards("p"), world.find_cards("q")) == ({"c": ["a"]}, {"c": ["b"]})


async def test_difference_from_kubelet_report_marks_pods_outdated(world):
    world.pod("p", "a", "a")
    assert await world.reconcile()
    assert not world.reconciler.pods_outdated
    world.held["d", "unknown"] = world.held["d", "p"]
    assert await world.reconcile()
    assert world.reconciler.pods_outdated
    del world.held["d", "unknown"], world.held["d", "p"]
    assert await world.reconcile()
    assert world.reconciler.pods_outdated


@pytest.mark.parametrize(("status", "seconds"), [(404, 0), (409, 0), (0, 5)])
async def test_failed_write_marks_pods_outdated(world, status, seconds):
    world.pod("p", "a", "b")
    world.api.fail(ApiError("not it", status=status), "PATCH")
    assert await world.reconcile()
    assert world.reconciler.pods_outdated
    world.now += seconds
    assert await world.reconcile()
    assert not world.reconciler.pods_outdated
    assert world.find_cards("p") == {"c": ["b"]}


async def test_constraint_broken_by_kubelet_is_recorded_and_reported(world):
    world.pod("p", "a", "b", request='{"c": {"model": "other"}}')
    assert await world.reconcile()
    sentence = "container c has cards of a model other than other"
    assert world.written[0][1].broken == (sentence,)
    assert ("p", "ConstraintBroken", sentence) in world.events


async def test_another_pod_of_the_same_name_is_not_changed(world):
    world.pod("p", "a", "b")
    world.find("p")["metadata"]["uid"] = "another"
    assert await world.reconcile()
    assert (world.written, world.events) == ([], [])


async def test_requests_stop_after_two_pods_without_response(world):
    for name in "pqr":
        world.pod(name, "a", "b")
    world.api.fail(ApiError("away"), "PATCH", times=None)
    assert not await world.reconcile()
    assert (world.count("assignment_correction_failures", reason="unanswered"), world.events) == (2, [])
    assert len(world.api.writes) == 2
    assert world.reconciler.uncounted == (Share("b", 6),)
    assert world.divergent == 3
    world.api.recover()
    world.now += 15
    assert await world.reconcile()
    assert world.divergent == 0
    assert ([world.find_cards(name) for name in "pqr"], world.reconciler.uncounted) == ([{"c": ["b"]}] * 3, ())


async def test_one_pod_without_response_does_not_block_other_pods(world):
    for name in "pqr":
        world.pod(name, "a", "b")
    world.api.fail(ApiError("away"), "PATCH", "/pods/p", times=None)
    for _ in range(3):
        assert await world.reconcile()
    assert [world.find_cards(name) for name in "pqr"] == [{"c": ["a"]}, {"c": ["b"]}, {"c": ["b"]}]
    assert world.count_patches("/p") == 1


async def test_two_pods_without_response_block_other_pods_for_one_comparison(world):
    for name in "pqr":
        world.pod(name, "a", "b")
    for name in "pq":
        world.api.fail(ApiError("away"), "PATCH", f"/pods/{name}", times=None)
    assert not await world.reconcile()
    assert await world.reconcile()
    assert world.find_cards("r") == {"c": ["b"]}


async def test_dialect_annotations_without_response_do_not_block_other_pods(world):
    world.use("gcushare")
    for name in "pq":
        world.pod(name, "a", "a")
        world.annotate(name, {"enflame.com/gcu-device-id": "5", "enflame.com/gcu-device-assigned": "false"})
    world.api.fail(ApiError("away"), "PATCH", "/pods/p", times=None)
    assert await world.reconcile()
    assigned = [world.find(name)["metadata"]["annotations"]["enflame.com/gcu-device-assigned"] for name in "pq"]
    assert assigned == ["false", "true"]


REFUSALS = [
    (ApiError("annotations: Too long", status=422), "invalid"),
    (ApiError("denied by the namespace's policy", status=403), "forbidden"),
    (ApiError("failed calling webhook", status=500), "server_error"),
    (ApiError("never heard of", status=499), "other"),
]


@pytest.mark.parametrize(("error", "reason"), REFUSALS, ids=[reason for _, reason in REFUSALS])
async def test_refused_correction_does_not_block_other_corrections(world, error, reason):
    for name in "pqr":
        world.pod(name, "a", "b")
    world.pod("stray", None, "b")
    world.api.fail(error, "PATCH", "/pods/p", times=None)
    assert await world.reconcile()
    assert [world.find_cards(name) for name in ("q", "r")] == [{"c": ["b"]}] * 2
    assert world.find_cards("stray")["c"] == ["b"]
    assert world.find_cards("p") == {"c": ["a"]}
    assert world.count("assignment_correction_failures", reason=reason) == 1


async def test_wait_of_refused_pod_doubles_and_refusal_is_logged_once(world, caplog):
    world.pod("p", "a", "b")
    world.api.fail(ApiError("annotations: Too long", status=422), "PATCH", times=None)
    tries = []
    for second in range(2000):
        world.now = float(second)
        before = world.count_patches()
        assert await world.reconcile()
        tries += [second] * (world.count_patches() - before)
    assert tries == [0, 15, 45, 105, 225, 465, 765, 1065, 1365, 1665, 1965]
    assert [reason for _, reason, _ in world.events] == ["AssignmentNotCorrected"]
    assert len([each for each in caplog.records if "assignment not corrected pod=d/p uid=uid-p" in each.message]) == 1
    world.api.recover()
    world.now += 300
    assert await world.reconcile()
    assert (world.find_cards("p"), world.reconciler.uncounted) == ({"c": ["b"]}, ())


async def test_repeated_changes_of_a_refused_pod_do_not_shorten_its_wait(world):
    world.api.fail(ApiError("annotations: Too long", status=422), "PATCH", times=None)
    tries = []
    for second in range(500):
        world.now = float(second)
        world.pod("p", "a", "b", request=f'{{"c": {{"gas-allow": ["card{second}"]}}}}')
        before = world.count_patches()
        await world.reconcile()
        tries += [second] * (world.count_patches() - before)
    assert tries == [0, 15, 45, 105, 225, 465]


async def test_amounts_of_refused_pod_are_counted(world):
    world.pod("p", "a", "b")
    world.pod("q", "b", "a")
    world.api.fail(ApiError("annotations: Too long", status=422), "PATCH", "/pods/p", times=None)
    assert await world.reconcile()
    # On card b it counts through the pod that left this card, while this pod exists.
    assert (world.find_cards("q"), world.reconciler.uncounted) == ({"c": ["a"], MOVING: ["b"]}, ())
    world.pods.take(msgspec.convert({**world.find("q"), "status": {"phase": "Succeeded"}}, Pod))
    del world.held["d", "q"]
    assert await world.reconcile()
    assert world.reconciler.uncounted == (Share("b", 2),)


async def test_forbidden_corrections_are_reported_once_and_counted(world):
    world.pod("p", "a", "b")
    world.pod("q", "a", "b")
    world.api.fail(ApiError("pods is forbidden", status=403), "PATCH", times=None)
    assert await world.reconcile()
    assert await world.reconcile()
    assert world.count("assignment_correction_failures", reason="forbidden") == 2
    assert not world.reconciler.pods_outdated
    assert len(world.events) == 2
    assert world.reconciler.uncounted == (Share("b", 4),)


async def test_nothing_is_corrected_before_the_cards_are_known(world):
    world.pod("p", "a", "b")
    world.node = None
    assert not await world.reconcile()
    assert world.written == []


async def test_refused_annotations_of_a_dialect_are_not_retried_at_once(world, caplog):
    world.use("gcushare")
    world.pod("p", "a", "a")
    world.pod("q", "a", "a")
    for name in "pq":
        world.annotate(name, {"enflame.com/gcu-device-id": "5", "enflame.com/gcu-device-assigned": "false"})
    world.api.fail(ApiError("annotations: Too long", status=422), "PATCH", "/pods/p", times=None)
    caplog.set_level("INFO")
    for _ in range(3):
        assert await world.reconcile()
    patched = [each.path.rpartition("/")[2] for each in world.api.writes if each.method == "PATCH"]
    assert (patched, len(caplog.records)) == (["p", "q"], 1)


async def test_a_dialects_annotations_are_written_after_the_allocation(world):
    world.use("gcushare")
    world.pod("p", "a", "a")
    world.annotate("p", {"enflame.com/gcu-device-id": "5", "enflame.com/gcu-device-assigned": "false"})
    assert await world.reconcile()
    annotations = world.find("p")["metadata"]["annotations"]
    assert (annotations["enflame.com/gcu-device-assigned"], annotations["enflame.com/gcu-device-id"]) == ("true", "5")
    assert annotations["enflame.com/gcu-device-memory-request"] == "2"
    written = len(world.written)
    assert await world.reconcile()
    assert len(world.written) == written


@pytest.mark.parametrize(
    ("assigned", "forged", "reason"),
    [
        ("a", {"amount": 16}, "it assigns 16 B to container c, but the pod's limits allow 2 B"),
        ("a", {"ghost": (Share("b", 16),)}, "it assigns cards to container ghost, which requests none"),
        ("z", {}, "container c was assigned card z, which does not exist on its node"),
    ],
)
async def test_a_rejected_assignment_is_corrected_reported_and_counted_once(world, assigned, forged, reason):
    world.pod("p", assigned, "a", **forged)
    for _ in range(2):
        assert await world.reconcile()
    ((_, written),) = world.written
    assert written == Assignment({"c": (Share("a", 2),)})
    message = f"its assignment is rejected: {reason}; the kubelet allocated c 2 B of card a"
    assert world.events == [("p", "AssignmentCorrected", message)]
    assert (world.count("disbelieved_assignments"), world.count("assignment_corrections")) == (1, 1)


async def test_changed_compute_is_restored(world):
    world.pod("p", "a", "a")
    assert await world.reconcile()
    world.pod("p", "a", "a", c=(Share("a", 2, 1000),))
    assert await world.reconcile()
    assert [written for _, written in world.written] == [Assignment({"c": (Share("a", 2),)})]
    assert await world.reconcile()
    assert len(world.written) == 1


async def test_pod_started_in_former_unit_is_corrected_in_that_unit(world):
    world.pod("p", "a", "b", amount=16)
    world.pods.set_cards(NodeCards(world.node.cards, 1, (FormerUnit(8, 1_704_067_200),)))
    assert await world.reconcile()
    ((_, written),) = world.written
    assert written == Assignment({"c": (Share("b", 16),)})


async def test_a_pod_of_a_former_dialect_is_corrected_in_its_dialect(world):
    world.resource = "enflame.com/gcu-memory"
    world.pod("p", "a", "b")
    world.annotate("p", {"enflame.com/gcu-device-id": "5", "enflame.com/gcu-device-assigned": "false"})
    assert await world.reconcile()
    assert world.find_cards("p") == {"c": ["b"]}
    assert world.find("p")["metadata"]["annotations"]["enflame.com/gcu-device-assigned"] == "true"


def test_devices_of_all_dialects_are_grouped_by_pod():
    answer = resources.ListPodResourcesResponse()
    given = {
        "p": (("enflame.com/gcu-memory", unit("a", 1)), ("enflame.com/gcu-memory", unit("a", 2)), ("x.com/nic", "n")),
        "q": (("aliyun.com/gpu-count", "b"),),
        "ours": (("nvidia.com/gpu", "a"),),
        "theirs": (("nvidia.com/gpu", "b"),),
        "others": (("aliyun.com/gpu-mem", "GPU-1-_-3"),),
        "nic": (("x.com/nic", "n"),),
    }
    for name, devices in given.items():
        container = answer.pod_resources.add(namespace="d", name=name).containers.add(name="c")
        for resource, device_id in devices:
            container.devices.add(resource_name=resource, device_ids=[device_id])
    assert group_devices_by_pod(answer, NATIVE, {("d", "ours")}, DeviceIds("ab")) == {
        ("d", "p"): {"c": ContainerDevices([unit("a", 1), unit("a", 2)], [])},
        ("d", "q"): {"c": ContainerDevices([], ["b"])},
        ("d", "ours"): {"c": ContainerDevices([], ["a"])},
    }


class Meeting:
    """Barrier that releases requests when this number of them is in flight."""

    def __init__(self, most):
        self._most, self._enough, self.under_way = most, asyncio.Event(), 0

    async def __call__(self, request):
        if request.method == "PATCH":
            self.under_way += 1
            if self.under_way == self._most:
                self._enough.set()
            async with asyncio.timeout(60):
                await self._enough.wait()


async def test_corrections_are_sent_concurrently_to_slow_api_server(world):
    for name in "pqrs":
        world.pod(name, "a", "b")
    world.api.before.append(Meeting(4))
    assert await world.reconcile()
    assert [world.find_cards(name) for name in "pqrs"] == [{"c": ["b"]}] * 4


async def test_dialect_annotations_are_written_concurrently(world):
    world.use("gcushare")
    for name in "pqrs":
        world.pod(name, "a", "a")
        world.annotate(name, {"enflame.com/gcu-device-id": "5", "enflame.com/gcu-device-assigned": "false"})
    world.api.before.append(Meeting(4))
    assert await world.reconcile()
    for name in "pqrs":
        assert world.find(name)["metadata"]["annotations"]["enflame.com/gcu-device-assigned"] == "true"


async def test_number_of_concurrent_corrections_is_bounded(world):
    most, now = 0, 0

    async def arrive(request):
        nonlocal most, now
        if request.method == "PATCH":
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

    names = [chr(ord("a") + number) for number in range(26)]
    for name in names:
        world.pod(name, "a", "b")
    world.api.before.append(arrive)
    assert await world.reconcile()
    assert [world.find_cards(name) for name in names] == [{"c": ["b"]}] * 26
    assert 1 < most <= 8
