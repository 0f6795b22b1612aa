"""Pod groups on the real kube-apiserver and kube-scheduler: all members are bound, or none is and none holds a card."""

from __future__ import annotations

import asyncio
import itertools

import msgspec
import pytest
from extender_process import MEMORY, PODS, Process, client_of, inventory, until, world_of
from real_scheduler import build_configuration, run_scheduler

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

NAME = "groups-scheduler"
GATE = "accelkit.io/pod-group"
GROUP = "pod-group.scheduling.sigs.k8s.io/name"
SIZE = "pod-group.scheduling.sigs.k8s.io/min-available"
COSCHEDULING = "scheduling.x-k8s.io/pod-group"
POD_GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOLD, RESERVED = 3, 8


ANYTHING = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
DEFINITION = {
    "metadata": {
        "name": "podgroups.scheduling.x-k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test's own"},
    },
    "spec": {
        "group": "scheduling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "podgroups", "kind": "PodGroup"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": ANYTHING}],
    },
}


async def serve_pod_groups(kubeconfig):
    async with ApiClient(load_connection(kubeconfig)) as api:
        await api.post(DEFINITIONS, DEFINITION)

        async def served():
            try:
                return bool(await api.get(POD_GROUPS))
            except ApiError:
                return False

        await until(served)


async def drop_pod_groups(kubeconfig):
    async with ApiClient(load_connection(kubeconfig)) as api:
        await api.delete(f"{DEFINITIONS}/{DEFINITION['metadata']['name']}")


@pytest.fixture(scope="module")
def pod_groups(control_plane):
    """The coscheduling plug-in's PodGroups, as far as a name and a number go."""
    asyncio.run(serve_pod_groups(control_plane.kubeconfig))
    yield
    asyncio.run(drop_pod_groups(control_plane.kubeconfig))


@pytest.fixture(scope="module")
def extender(control_plane, pod_groups, tmp_path_factory):
    seconds = ("--pod-group-hold", str(HOLD), "--pod-group-seconds", str(RESERVED))
    arguments = ("--kubeconfig", str(control_plane.kubeconfig), "--pod-groups", *seconds, "--most-nodes", "0")
    with Process(tmp_path_factory.mktemp("logs"), *arguments) as process:
        yield process


@pytest.fixture(scope="module")
def kube_scheduler(control_plane, extender, tmp_path_factory):
    entry = {
        "urlPrefix": extender.url,
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "managedResources": [{"name": MEMORY, "ignoredByScheduler": True}],
    }
    config = build_configuration(NAME, control_plane.paths.build_kubeconfig_path("kube-scheduler"), entry)
    with run_scheduler(config, tmp_path_factory.mktemp("scheduler")) as log:
        yield log


class Site:
    """Nodes of one test, and groups of pods that are for them alone."""

    def __init__(self, world, extender):
        self.world, self.extender = world, extender
        self.nodes = []
        self._names = itertools.count()

    def name(self):
        return f"{self.world.prefix}-g{next(self._names)}"

    async def add_nodes(self, count, cards=1, memory=16):
        allocatable = {"cpu": "64", "memory": "64Gi", "pods": "100"}
        for _ in range(count):
            node = await self.world.node(cards, memory, allocatable=allocatable)
            await self.extender.shows(node, lambda view: view["state"] == "shared")
            self.nodes.append(node)

    async def pod(self, group, memory, *, size=None, gated=True, label=GROUP, scheduler=NAME):
        labels = {label: group} | ({} if size is None else {SIZE: str(size)})
        among = {"matchExpressions": [{"key": "accelkit-test", "operator": "In", "values": self.nodes}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [among]}}
        spec = {
            "schedulerName": scheduler,
            "affinity": {"nodeAffinity": required},
            "tolerations": [{"operator": "Exists"}],
            **({"schedulingGates": [{"name": GATE}]} if gated else {}),
        }
        return await self.world.pod(memory, spec=spec, labels=labels)

    async def pods(self, group, count, memory, **options):
        return [await self.pod(group, memory, **options) for _ in range(count)]

    async def placed(self, pods):
        return [(await self.world.read(pod))["spec"].get("nodeName") for pod in pods]

    async def bound(self, pods):
        """Wait until all are bound."""

        async def all_bound():
            return all(await self.placed(pods))

        try:
            await until(all_bound)
        except AssertionError as exc:
            raise AssertionError(self.extender.process.log.read_text()[-6000:]) from exc

    async def told(self, pods, reason, text):
        """Wait for an Event of one of these pods."""
        names = {pod["metadata"]["name"] for pod in pods}

        async def found():
            events = msgspec.json.decode(await self.world.api.get("/api/v1/namespaces/default/events"))["items"]
            about = (each for each in events if each["involvedObject"]["name"] in names and each["reason"] == reason)
            return [each["message"] for each in about if text in each["message"]]

        try:
            return await until(found)
        except AssertionError as exc:
            raise AssertionError(self.extender.process.log.read_text()[-6000:]) from exc

    async def used(self):
        return sum([await self.extender.used(node) for node in self.nodes])

    async def holds(self, amount):
        """Wait until so many GiB are held on the nodes."""

        async def held():
            return await self.used() == amount

        await until(held)

    async def relabel(self, pod, key, value):
        await self.world.api.patch(f"{PODS}/{pod['metadata']['name']}", {"metadata": {"labels": {key: value}}})


@pytest.fixture
async def site(control_plane, extender, kube_scheduler):
    async with world_of(control_plane.kubeconfig) as world, client_of(extender) as client:
        yield Site(world, client)


async def test_a_gated_group_is_bound_wholly_once_its_last_pod_is_there(site):
    await site.add_nodes(2)
    group = site.name()
    pods = await site.pods(group, 3, 8, size=4)
    await site.told(pods, "PodGroupWaiting", "3 of 4 pods are there")
    assert await site.placed(pods) == [None] * 3
    assert await site.used() == 0
    pods.append(await site.pod(group, 8, size=4))
    await site.bound(pods)
    assert sorted(await site.placed(pods)) == sorted(site.nodes * 2)


async def test_a_group_that_does_not_fit_binds_nobody_and_holds_nothing_until_it_does(site):
    await site.add_nodes(1)
    pods = await site.pods(site.name(), 3, 8, size=3)
    await site.told(pods, "PodGroupWaiting", "does not fit as a whole: room for 2 of 3 pods")
    assert await site.placed(pods) == [None] * 3
    assert await site.used() == 0
    await site.world.annotate(site.nodes[0], inventory(site.nodes[0], 2, 16))
    await site.bound(pods)


@pytest.mark.parametrize("gated", [True, False])
async def test_of_two_groups_that_compete_one_is_bound_wholly_and_then_the_other(site, gated):
    await site.add_nodes(2)
    groups = site.name(), site.name()
    pods = {group: [] for group in groups}
    for _ in range(3):
        for group in groups:
            pods[group].append(await site.pod(group, 8, size=3, gated=gated))

    async def winner():
        found = {group: await site.placed(pods[group]) for group in groups}
        # Four shares fit: neither may have one of them while the other has three.
        for group, other in (groups, groups[::-1]):
            assert not (any(found[group]) and any(found[other])), found
        return next((group for group in groups if all(found[group])), None)

    won = await until(winner)
    lost = next(group for group in groups if group != won)
    assert await site.placed(pods[lost]) == [None] * 3
    for pod in pods[won]:
        await site.world.delete(pod, seconds=0)
    await site.bound(pods[lost])


async def test_without_gates_binds_are_held_until_all_are_there(site):
    await site.add_nodes(2)
    group = site.name()
    pods = await site.pods(group, 3, 8, size=4, gated=False)
    await site.told(pods, "FailedScheduling", "3 of 4 pods are there")
    assert await site.placed(pods) == [None] * 3
    assert await site.used() == 0
    pods.append(await site.pod(group, 8, size=4, gated=False))
    await site.bound(pods)


async def test_what_is_not_bound_in_time_is_released_together_and_no_pod_is_bound_alone(site):
    await site.add_nodes(1)
    # No scheduler looks at them once their gates are lifted.
    pods = await site.pods(site.name(), 2, 8, size=2, scheduler="none")
    await site.holds(16)
    for pod in pods:

        async def lifted(pod=pod):
            return not (await site.world.read(pod))["spec"].get("schedulingGates")

        await until(lifted)
    await site.told(pods, "PodGroupReleased", f"not placed all of its pods within {RESERVED} s")
    assert await site.used() == 0
    error = await site.extender.bind(pods[0], site.nodes[0])
    assert f"kube-scheduler has placed 1 of 2 pods within {HOLD} s" in error
    assert await site.placed(pods) == [None, None]
    assert await site.used() == 0
    errors = await asyncio.gather(*(site.extender.bind(pod, site.nodes[0]) for pod in pods))
    assert errors == ["", ""]


async def test_a_group_that_loses_a_pod_amid_its_reservation_is_released(site):
    await site.add_nodes(1)
    pods = await site.pods(site.name(), 2, 8, size=2, scheduler="none")
    await site.holds(16)
    await site.world.delete(pods[0], seconds=0)
    await site.told(pods[1:], "PodGroupReleased", "1 of 2 pods are there")
    assert await site.used() == 0


async def test_who_claims_to_belong_to_a_group_does_not_keep_it_from_its_cards(site):
    await site.add_nodes(1)
    group = site.name()
    liar = await site.pod(group, 64, size=2)
    pods = await site.pods(group, 2, 8, size=2)
    await site.bound(pods)
    assert await site.placed([liar]) == [None]


async def test_a_size_that_is_said_in_two_ways_or_changes_is_no_size(site):
    await site.add_nodes(1)
    group = site.name()
    pods = [await site.pod(group, 8, size=2), await site.pod(group, 8, size=1)]
    await site.told(pods, "PodGroupWaiting", "disagree on its size")
    assert await site.placed(pods) == [None, None]
    await site.relabel(pods[1], SIZE, "two")
    await site.relabel(pods[0], SIZE, "two")
    await site.told(pods, "PodGroupWaiting", "says no size of its group")
    assert await site.used() == 0
    for pod in pods:
        await site.relabel(pod, SIZE, "2")
    await site.bound(pods)


async def test_the_pod_group_of_coscheduling_says_the_size(site):
    await site.add_nodes(1)
    group = site.name()
    # What a pod says does not count beside the object.
    pods = [await site.pod(group, 8, label=COSCHEDULING, size=1)]
    await site.world.api.post(
        POD_GROUPS,
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": group},
            "spec": {"minMember": 2},
        },
    )
    pods.append(await site.pod(group, 8, label=COSCHEDULING))
    await site.bound(pods)
