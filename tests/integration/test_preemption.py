"""The real kube-scheduler and the extender evict pods for one of higher priority, and only those that free its card."""

import asyncio
import contextlib
import re
import time

import msgspec
import pytest
from extender_process import MEMORY, PODS, Process, client_of, used_by_card, wait_until_seen, world_of
from proxy import Proxy
from real_scheduler import build_configuration, run_scheduler
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NAME = "preempting-scheduler"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
EVENTS = "/api/v1/namespaces/default/events"
PRIORITIES = {"low": (1, None), "middle": (2, None), "more": (3, None), "most": (4, None)}
PRIORITIES |= {"high": (10, None), "never": (10, "Never")}
# An eviction follows a refusal after 2 s and one turn.
SETTLED_SECONDS = 4.0


async def create_classes(kubeconfig):
    async with ApiClient(load_connection(kubeconfig)) as api:
        for name, (value, policy) in PRIORITIES.items():
            body = {"metadata": {"name": f"preempting-{name}"}, "value": value}
            with contextlib.suppress(ApiError):
                await api.post(CLASSES, body | ({"preemptionPolicy": policy} if policy else {}))


@pytest.fixture(scope="module")
def process(control_plane, tmp_path_factory):
    """The extender, with a kube-scheduler configured as we configure it."""
    asyncio.run(create_classes(control_plane.kubeconfig))
    arguments = ("--kubeconfig", str(control_plane.kubeconfig), "--wake", "--evict-for-priority")
    with Process(tmp_path_factory.mktemp("logs"), *arguments) as process:
        entry = ExtenderEntry(url_prefix=process.url).build_entry()
        config = build_configuration(NAME, control_plane.paths.build_kubeconfig_path("kube-scheduler"), entry)
        with run_scheduler(config, tmp_path_factory.mktemp("scheduler")) as log:
            process.scheduler_log = log
            yield process


class Cluster:
    """One node, and pods for it."""

    def __init__(self, world, extender, node):
        self.world, self.extender, self.node = world, extender, node

    async def pod(self, memory, priority, *, labels=None, **spec):
        placement = {
            "schedulerName": NAME,
            "nodeSelector": {"accelkit-test": self.node},
            "tolerations": [{"operator": "Exists"}],
            "priorityClassName": f"preempting-{priority}",
        }
        pod = await self.world.pod(memory, spec={**placement, **spec})
        if labels:
            await self.world.api.patch(f"{PODS}/{pod['metadata']['name']}", {"metadata": {"labels": labels}})
        return pod

    async def bound(self, *pods, seconds=60.0):
        """Wait until pods are bound; then they run, as a kubelet would say."""
        for pod in pods:

            async def has_node(pod=pod):
                return (await self.world.read(pod))["spec"].get("nodeName")

            assert await until(has_node, seconds=seconds) == self.node
            await self.world.phase(pod, "Running")

    async def running(self, memory, *priorities, **of):
        pods = []
        for priority in priorities:
            pod = await self.pod(memory, priority, **of)
            await self.bound(pod)
            pods.append(pod)
        return pods

    async def left(self, pods):
        """Which of these pods are still there."""
        found = msgspec.json.decode(await self.world.api.get(PODS))["items"]
        uids = {each["metadata"]["uid"] for each in found if "deletionTimestamp" not in each["metadata"]}
        return [pod for pod in pods if pod["metadata"]["uid"] in uids]

    async def reasons(self, pod):
        found = msgspec.json.decode(await self.world.api.get(EVENTS))["items"]
        return [each["reason"] for each in found if each["involvedObject"].get("uid") == pod["metadata"]["uid"]]


@contextlib.asynccontextmanager
async def cluster_of(control_plane, process, cards=2, memory=8):
    async with world_of(control_plane.kubeconfig) as world, client_of(process) as extender:
        amounts = {"cpu": "8", "memory": "8Gi", "pods": "20", MEMORY: str(cards * memory)}
        node = await world.node(cards, memory, allocatable=amounts)
        await extender.shows(node, lambda view: view["state"] == "shared")
        yield Cluster(world, extender, node)


async def test_pod_of_lower_priority_is_evicted_if_no_single_card_fits(control_plane, process, record_property):
    async with cluster_of(control_plane, process) as cluster:
        running = await cluster.running(5, "low", "middle")
        began = time.monotonic()
        preemptor = await cluster.pod(5, "high")
        await cluster.bound(preemptor)
        record_property("seconds_to_binding", round(time.monotonic() - began, 1))
        # The one of the lowest priority, and nobody else.
        assert await cluster.left(running) == running[1:]
        assert "Preempted" in await cluster.reasons(running[0])
        assert "Preempting" in await cluster.reasons(preemptor)
        await cluster.extender.shows(cluster.node, lambda view: set(used_by_card(view).values()) == {5})
        # What was freed was kept: a pod that came meanwhile would have had to wait.
        text = (await cluster.extender.ask("GET", "/metrics"))[1]
        assert re.search(rb'accelkit_extender_evictions_total\{result="evicted"\} [1-9]', text)


async def test_pod_that_may_not_preempt_evicts_no_pods(control_plane, process):
    async with cluster_of(control_plane, process) as cluster:
        running = await cluster.running(5, "middle", "middle")
        equal, never = await cluster.pod(5, "middle"), await cluster.pod(5, "never")
        await asyncio.gather(cluster.world.unschedulable(equal), cluster.world.unschedulable(never))
        # An eviction would follow the refusal within seconds, as the test above shows; one that may, does.
        await asyncio.sleep(SETTLED_SECONDS)
        assert await cluster.left(running) == running
        await cluster.bound(await cluster.pod(5, "high"))
        assert len(await cluster.left(running)) == 1


async def test_disruption_budget_without_allowed_disruptions_is_respected(control_plane, process):
    async with cluster_of(control_plane, process) as cluster:
        labels = {"guarded": cluster.node}
        running = await cluster.running(5, "low", "low", labels=labels)
        name, path = cluster.node, f"{BUDGETS}/{cluster.node}"
        spec = {"minAvailable": 2, "selector": {"matchLabels": labels}}
        made = msgspec.json.decode(await cluster.world.api.post(BUDGETS, {"metadata": {"name": name}, "spec": spec}))
        status = {"observedGeneration": made["metadata"]["generation"], "expectedPods": 2, "desiredHealthy": 2}
        status |= {"currentHealthy": 2, "disruptionsAllowed": 0}
        try:
            await cluster.world.api.patch(f"{path}/status", {"status": status})
            preemptor = await cluster.pod(5, "high")
            await cluster.world.unschedulable(preemptor)
            await asyncio.sleep(SETTLED_SECONDS)
            assert await cluster.left(running) == running
            # One that no budget covers is no less welcome for it.
            await cluster.world.api.patch(
                f"{PODS}/{running[1]['metadata']['name']}", {"metadata": {"labels": {"guarded": None}}}
            )
            await cluster.bound(preemptor)
            assert await cluster.left(running) == running[:1]
        finally:
            await cluster.world.api.delete(path)


async def test_only_scheduler_victims_on_one_card_are_evicted(control_plane, process):
    async with cluster_of(control_plane, process) as cluster:
        # Binpack fills one card first. By amounts alone, kube-scheduler would evict the two of the lowest priority,
        # which lie on different cards, and free none.
        running = await cluster.running(4, "low", "more", "middle", "most")
        await wait_until_seen(cluster.extender, cluster.world)
        preemptor = await cluster.pod(8, "high")
        await cluster.bound(preemptor)
        assert await cluster.left(running) == running[2:]
        assert 'preemptor="default/' + preemptor["metadata"]["name"] in process.scheduler_log.read_text()


async def test_waiting_pod_is_bound_soon_after_delayed_watch_of_release(control_plane, tmp_path, record_property):
    async with Proxy(control_plane.kubeconfig, tmp_path) as proxy, world_of(control_plane.kubeconfig) as world:
        await create_classes(control_plane.kubeconfig)
        with Process(tmp_path, "--kubeconfig", str(proxy.kubeconfig), "--wake") as late:
            entry = ExtenderEntry(url_prefix=late.url).build_entry()
            kubeconfig = control_plane.paths.build_kubeconfig_path("kube-scheduler")
            with run_scheduler(build_configuration("late-scheduler", kubeconfig, entry), tmp_path):
                async with client_of(late) as extender:
                    amounts = {"cpu": "8", "memory": "8Gi", "pods": "20", MEMORY: "32"}
                    node = await world.node(2, 8, allocatable=amounts)
                    await extender.shows(node, lambda view: view["state"] == "shared")
                    cluster = Cluster(world, extender, node)
                    running = await cluster.running(5, "low", "low", schedulerName="late-scheduler")
                    waiting = await cluster.pod(5, "low", schedulerName="late-scheduler")
                    await cluster.world.unschedulable(waiting)
                    await asyncio.sleep(1)
                    proxy.watch_delay_seconds = 2.0
                    deleted = time.monotonic()
                    await world.delete(running[0])
                    # After some 50 s the node itself changes, since it has no kubelet.
                    await cluster.bound(waiting, seconds=45)
                    taken = time.monotonic() - deleted
                    record_property("seconds_to_binding", round(taken, 2))
                    # It cannot be before we see the release.
                    assert taken >= 2
