from __future__ import annotations

import msgspec
import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.kube.events import Events
from accelkit.kube.paths import PODS
from accelkit.model.assignment import (
    ASSIGNMENT_ANNOTATION,
    MOVING,
    Assignment,
    Share,
    decode_assignment,
    encode_assignment,
)
from accelkit.model.card import Card
from accelkit.model.pod import Pod
from accelkit.node._proto import podresources_pb2 as resources
from accelkit.node.metrics import Metrics
from accelkit.node.pods import NodePods
from accelkit.node.reconciliation.observed_assignment import ContainerDevices, NodeCards
from accelkit.node.reconciliation.reconciler import Reconciler, group_devices_by_pod
from accelkit.vendors.dialects import load_dialect

NATIVE = load_dialect("native")


class PodsApi(FakeApi):
    """Pods by name, with the assignments that were patched and the events that were written."""

    def __init__(self):
        super().__init__()
        self.patches, self.events = [], []
        self.after.append(self._note)

    @property
    def pods(self):
        return {path.rpartition("/")[2]: each for path, each in self.objects.items() if "/pods/" in path}

    def _note(self, request):
        if request.method == "PATCH":
            name = request.path.rpartition("/")[2]
            self.patches.append(
                (name, decode_assignment(self.pods[name]["metadata"]["annotations"][ASSIGNMENT_ANNOTATION]))
            )
        else:
            body = request.body
            self.events.append((body["involvedObject"]["name"], body["reason"], body["message"]))


class World:
    def __init__(self):
        self.api = PodsApi()
        self.pods = NodePods(self.api, "n", NATIVE)
        self.metrics = Metrics()
        self.node = NodeCards({name: Card(name, "v", "m", 16) for name in "ab"}, 1)
        self.reconciler = Reconciler(
            self.api,
            pods=self.pods,
            dialect=NATIVE,
            cards=lambda: self.node,
            events=Events(self.api, "agent", "n"),
            metrics=self.metrics,
        )
        self.held = {}

    def pod(self, name, assigned, held, *, admitted=True, request="{}"):
        """A pod with two units on `assigned` that holds them on `held`."""
        assignment = None if assigned is None else Assignment({"c": (Share(assigned, 2),)})
        annotations = {"accelkit.io/request": request}
        if assignment:
            annotations[ASSIGNMENT_ANNOTATION] = encode_assignment(assignment)
        pod = {
            "metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}", "annotations": annotations},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"accelkit.io/memory": "2"}}}]},
            "status": {"phase": "Running", **({"startTime": "2024-01-01T00:00:00Z"} if admitted else {})},
        }
        self.api.store(PODS, pod)
        self.pods.take(msgspec.convert(self.api.pods[name], Pod))
        if held:
            self.held["d", name] = {"c": ContainerDevices(memory=[f"{held}::{name}1", f"{held}::{name}2"])}

    async def reconcile(self):
        return await self.reconciler.reconcile(self.held)

    def cards(self, name):
        text = self.api.pods[name]["metadata"]["annotations"][ASSIGNMENT_ANNOTATION]
        return {k: [share.card for share in shares] for k, shares in decode_assignment(text).containers.items()}

    def count(self, name):
        return self.metrics.registry.get_sample_value(f"accelkit_{name}_total")


@pytest.fixture
def world():
    return World()


async def test_an_assignment_that_is_true_is_left_alone(world):
    world.pod("p", "a", "a")
    assert await world.reconcile()
    assert (world.api.patches, world.api.events) == ([], [])


async def test_the_kubelets_choice_is_written_in_one_patch_told_and_counted(world):
    world.pod("p", "a", "b")
    assert await world.reconcile()
    assert [name for name, _ in world.api.patches] == ["p"]
    assert world.cards("p") == {"c": ["b"]}
    assert world.api.events == [
        ("p", "AssignmentCorrected", "assigned c 2 B of card a; the kubelet gave c 2 B of card b")
    ]
    assert world.count("assignment_corrections") == 1
    assert await world.reconcile()
    assert len(world.api.patches) == 1


async def test_a_pod_bound_past_us_gets_the_assignment_it_holds(world):
    world.pod("p", None, "b")
    assert await world.reconcile()
    assert world.cards("p") == {"c": ["b"]}
    assert world.api.events == [
        ("p", "AssignmentRecorded", "bound past the scheduler; the kubelet gave c 2 B of card b")
    ]
    assert (world.count("assignments_recorded"), world.count("assignment_corrections")) == (1, 0)


async def test_pods_that_swapped_are_corrected_without_a_gap(world):
    world.pod("p", "a", "b")
    world.pod("q", "b", "a")
    assert await world.reconcile()
    assert [(name, MOVING in each.containers) for name, each in world.api.patches] == [
        ("p", True),
        ("q", False),
        ("p", False),
    ]
    assert (world.cards("p"), world.cards("q")) == ({"c": ["b"]}, {"c": ["a"]})
    assert len(world.api.events) == 2


async def test_a_pod_that_is_not_admitted_yet_is_not_judged(world):
    world.pod("p", "a", "b", admitted=False)
    assert not await world.reconcile()
    assert world.api.patches == []


async def test_the_swap_waits_for_the_pod_that_waits(world):
    world.pod("p", "b", "a")
    world.pod("q", "a", None, admitted=False)
    assert not await world.reconcile()
    assert world.api.patches == []
    world.pod("q", "a", "b")
    assert await world.reconcile()
    assert (world.cards("p"), world.cards("q")) == ({"c": ["a"]}, {"c": ["b"]})


async def test_a_constraint_that_the_kubelet_broke_stays_visible(world):
    world.pod("p", "a", "b", request='{"c": {"model": "other"}}')
    assert await world.reconcile()
    sentence = "container c has cards of another model than other"
    assert world.api.patches[0][1].broken == (sentence,)
    assert ("p", "ConstraintBroken", sentence) in world.api.events


async def test_another_pod_of_the_same_name_is_left_alone(world):
    world.pod("p", "a", "b")
    world.api.pods["p"]["metadata"]["uid"] = "another"
    assert await world.reconcile()
    assert (world.api.patches, world.api.events) == ([], [])


async def test_what_the_api_server_refuses_is_tried_again(world):
    world.pod("p", "a", "b")
    world.api.fail(ApiError("away", status=500), "PATCH")
    assert not await world.reconcile()
    assert (world.count("assignment_correction_failures"), world.api.events) == (1, [])
    assert await world.reconcile()
    assert world.cards("p") == {"c": ["b"]}


async def test_what_the_agent_has_no_right_to_is_not_asked_for_again_at_once(world):
    world.pod("p", "a", "b")
    world.api.fail(ApiError("pods is forbidden", status=403), "PATCH")
    assert await world.reconcile()
    assert world.count("assignment_correction_failures") == 1


async def test_nothing_is_corrected_before_the_cards_are_known(world):
    world.pod("p", "a", "b")
    world.node = None
    assert not await world.reconcile()
    assert world.api.patches == []


def test_devices_of_other_resources_are_left_out():
    answer = resources.ListPodResourcesResponse()
    pod = answer.pod_resources.add(namespace="d", name="p")
    container = pod.containers.add(name="c")
    container.devices.add(resource_name="accelkit.io/memory", device_ids=["a::1"])
    container.devices.add(resource_name="accelkit.io/memory", device_ids=["a::2"])
    container.devices.add(resource_name="example.com/nic", device_ids=["n"])
    pod.containers.add(name="other").devices.add(resource_name="example.com/nic", device_ids=["m"])
    assert group_devices_by_pod(answer, NATIVE) == {("d", "p"): {"c": ContainerDevices(["a::1", "a::2"], [])}}


async def test_a_dialects_annotations_say_when_the_kubelet_has_allocated(world):
    gcushare = load_dialect("gcushare")
    world.reconciler = Reconciler(
        world.api,
        pods=NodePods(world.api, "n", gcushare),
        dialect=gcushare,
        cards=lambda: NodeCards({"a": Card("a", "v", "m", 16, minor=5)}, 1),
        events=Events(world.api, "agent", "n"),
        metrics=world.metrics,
    )
    world.pods = world.reconciler._pods
    world.pod("p", "a", "a")
    annotations = world.api.pods["p"]["metadata"]["annotations"]
    annotations |= {"enflame.com/gcu-device-id": "5", "enflame.com/gcu-device-assigned": "false"}
    world.pods.take(msgspec.convert(world.api.pods["p"], Pod))
    assert await world.reconcile()
    annotations = world.api.pods["p"]["metadata"]["annotations"]
    assert (annotations["enflame.com/gcu-device-assigned"], annotations["enflame.com/gcu-device-id"]) == ("true", "5")
    assert annotations["enflame.com/gcu-device-memory-request"] == "2"
    written = len(world.api.patches)
    assert await world.reconcile()
    assert len(world.api.patches) == written
