"""The whole extender with pod groups on: what it reads by lists and watches, and what it writes."""

import asyncio

from groups_world import World
from http_service import PATIENCE_SECONDS
from support.waiting import until

from accelkit.extender.groups import pod_groups
from accelkit.extender.groups.pod_groups import GroupTimes
from accelkit.extender.preemption import evictor, refusals
from accelkit.kube.paths import NODES, PODS, build_pod_path
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.keys import ASSIGNMENT_ANNOTATION

LABELS = {"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}


def member(cluster, name, **spec):
    pod = cluster.pod(name)
    pod["metadata"] |= {"labels": LABELS}
    pod["spec"] |= {"schedulingGates": [{"name": "accelkit.io/pod-group"}], **spec}
    cluster.api.show(PODS, "ADDED", pod)
    return pod


def gates(cluster, name):
    return cluster.api.objects[build_pod_path("d", name)]["spec"].get("schedulingGates")


async def test_group_reservations_persist_after_relist_with_same_pods(cluster):
    async with cluster.extender(groups=GroupTimes()):
        for name in "pq":
            member(cluster, name)
        await cluster.uses(8)
        await until(lambda: not gates(cluster, "p") and not gates(cluster, "q"))
        lists = sum(request.path == PODS for request in cluster.api.requests)
        cluster.api.show(PODS, "ERROR", {"metadata": {}, "code": 410, "message": "too old"})
        await until(lambda: sum(request.path == PODS for request in cluster.api.requests) > lists)
        await asyncio.sleep(0.1)
        # Nobody asks what became of a Binding that was never sent.
        assert not any(request.method == "GET" and "/pods/" in request.path for request in cluster.api.requests)
        assert (await cluster.bind("p"), await cluster.bind("q")) == ("", "")
        await cluster.uses(8)


async def test_pod_missing_from_relist_ends_reservation_of_its_group(cluster):
    async with cluster.extender(groups=GroupTimes()):
        for name in "pq":
            member(cluster, name)
        await until(lambda: not gates(cluster, "p") and not gates(cluster, "q"))
        del cluster.api.objects[build_pod_path("d", "q")]
        cluster.api.show(PODS, "ERROR", {"metadata": {}, "code": 410, "message": "too old"})
        await cluster.uses(0)


async def test_node_labels_are_applied_to_groups_and_other_pods_are_unaffected(cluster):
    async with cluster.extender(groups=GroupTimes()):
        for name in "pq":
            member(cluster, name, nodeSelector={"zone": "a"})
        cluster.pod("r")
        assert await cluster.filter("r") == ["n"]
        assert await cluster.bind("r") == ""
        await cluster.uses(4)
        assert gates(cluster, "p")
        node = cluster.node()
        node["metadata"]["labels"] = {"zone": "a"}
        cluster.api.show(NODES, "MODIFIED", node)
        await cluster.uses(12)


async def test_disabled_pod_groups_change_nothing(cluster, monkeypatch):
    monkeypatch.setattr(pod_groups, "PodGroups", None)
    async with cluster.extender():
        for name in "pq":
            member(cluster, name)
        assert await cluster.bind("p") == ""
        await cluster.uses(4)
        assert gates(cluster, "q")


async def test_pod_is_evicted_for_single_pod_but_not_for_group_member(cluster, monkeypatch):
    monkeypatch.setattr(refusals, "DELAY_SECONDS", 0.0)
    monkeypatch.setattr(evictor, "_TURN_SECONDS", 0.02)
    low = cluster.pod("low", 16)
    share = encode_assignment(Assignment({"c": (Share("a", 16),)}))
    low["metadata"]["annotations"] = {ASSIGNMENT_ANNOTATION: share}
    low["spec"]["nodeName"] = "n"
    cluster.api.store(PODS, low)
    evicted = []
    path = build_pod_path("d", "low") + "/eviction"
    cluster.api.reviews[path] = lambda request: evicted.append(request.body["deleteOptions"]) or {}
    async with cluster.extender(groups=GroupTimes(), evict_for_priority=True):
        refused = {}
        for name, priority in (("p", 9), ("alone", 8)):
            pod = refused[name] = cluster.pod(name, 16)
            pod["spec"]["priority"] = priority
            pod["metadata"]["labels"] = LABELS if name == "p" else {}
            cluster.api.show(PODS, "ADDED", pod)
        await cluster.uses(16)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not any("dryRun" not in each for each in evicted):
                # The member first, as the one of the higher priority; the watch may show them later.
                for name in ("p", "alone"):
                    assert (await cluster.ask("/filter", {"Pod": refused[name], "NodeNames": ["n"]}))[0] == 200
        held = (await cluster.ask("/inspect"))[1]
        assert '"alone"' in held
        assert '"p"' not in held


async def test_listed_members_keep_requested_and_group_labels():
    world, listed = World(), []
    for name in "ab":
        world.pod(name, size=2)
        world.find(name)["metadata"]["labels"]["app"] = "x"
    reflector = world.groups.watch_pods(listed.append, lambda *_: None)
    task = asyncio.create_task(reflector.run())
    await until(lambda: listed)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert all(pod.metadata.labels == {"app": "x", **LABELS} for pod in listed[0])
    assert [pod.ref.name for pod in listed[0]] == ["a", "b"]
