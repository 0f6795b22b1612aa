"""`accelkit defrag` on a real API server: its plan names who leaves, and their cards go to the pod that waits."""

import asyncio
import contextlib
import signal
import subprocess
import sys

import msgspec
import pytest
from extender_process import MEMORY, PODS, Process, assignment, client_of, stages, world_of
from impersonation import acting_as
from real_scheduler import build_configuration, run_scheduler
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.model.hold import HOLD_CONDITION
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
PRIORITIES = {"low": 1, "middle": 2, "high": 1000}
NAME = "defrag-scheduler"
FINALIZER = "accelkit-test.example.com/lingers"


async def create_classes(api):
    for name, value in PRIORITIES.items():
        with contextlib.suppress(ApiError):
            await api.post(CLASSES, {"metadata": {"name": f"defrag-{name}"}, "value": value})


async def start_defrag(kubeconfig, *arguments):
    command = (sys.executable, "-m", "accelkit", "defrag", "--kubeconfig", str(kubeconfig), *arguments)
    return await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


async def finish(process):
    """The plan that the command prints, and what it says beside."""
    try:
        out, err = await asyncio.wait_for(process.communicate(), 90)
    except TimeoutError:
        process.kill()
        raise
    assert process.returncode == 0, err.decode()
    return msgspec.json.decode(out), err.decode()


async def defrag(kubeconfig, *arguments):
    """The plan that the command prints."""
    return (await finish(await start_defrag(kubeconfig, *arguments)))[0]


async def test_plan_lists_victims_and_apply_evicts_them(control_plane):
    async with world_of(control_plane.kubeconfig) as world:
        await create_classes(world.api)
        node = await world.node(2, 8, allocatable={"cpu": "8", "memory": "8Gi", "pods": "20", MEMORY: "16"})
        # One that is there, since the garbage collector looks for it, and that makes no other pod in this test.
        meta = msgspec.json.decode(await world.api.post(CONFIG_MAPS, {"metadata": {"name": node}}))["metadata"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": node, "uid": meta["uid"], "controller": True}
        running = []
        for place, priority in enumerate(("low", "middle")):
            spec = {"priorityClassName": f"defrag-{priority}"}
            pod = await world.pod(5, node_name=node, annotations=assignment(f"{node}-{place}", 5), spec=spec)
            path = f"{PODS}/{pod['metadata']['name']}"
            await world.api.patch(path, {"metadata": {"ownerReferences": [owner]}})
            running.append(pod)
        placement = {"nodeSelector": {"accelkit-test": node}, "tolerations": [{"operator": "Exists"}]}
        waiting = await world.pod(5, spec={**placement, "priorityClassName": "defrag-high"})
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        path = f"{PODS}/{waiting['metadata']['name']}"
        await world.api.patch(f"{path}/status", {"status": {"conditions": [condition]}})

        def planned(plan):
            steps = [step for step in plan["steps"] if step["uid"] == waiting["metadata"]["uid"]]
            return [(step["node"], [each["uid"] for each in step["evictions"]]) for step in steps]

        expected = [(node, [running[0]["metadata"]["uid"]])]
        assert planned(await defrag(control_plane.kubeconfig, "--plan", "-o", "json")) == expected
        assert (await world.read(running[0]))["metadata"]["uid"] == running[0]["metadata"]["uid"]
        applied = await start_defrag(control_plane.kubeconfig, "--apply", "--yes", "-o", "json")

        async def is_gone():
            with contextlib.suppress(ApiError):
                return not await world.read(running[0])
            return True

        await until(is_gone)
        assert await world.read(running[1])
        # It has the cards held, and reports when the pod is bound.
        assert HOLD_CONDITION in {each["type"] for each in (await world.read(waiting))["status"]["conditions"]}
        free = assignment(f"{node}-0", 5)
        await world.bind_past(waiting, node, free)
        plan, said = await finish(applied)
        assert planned(plan) == expected
        assert f"default/{waiting['metadata']['name']} is bound to {node}" in said
        assert HOLD_CONDITION not in str(await world.read(waiting))
        await world.api.delete(f"{CONFIG_MAPS}/{node}")


@pytest.fixture(scope="module")
def process(control_plane, tmp_path_factory):
    """The extender, with a kube-scheduler configured as we configure it."""
    arguments = ("--kubeconfig", str(control_plane.kubeconfig), "--wake")
    with Process(tmp_path_factory.mktemp("logs"), *arguments) as process:
        entry = ExtenderEntry(url_prefix=process.url).build_entry()
        config = build_configuration(NAME, control_plane.paths.build_kubeconfig_path("kube-scheduler"), entry)
        with run_scheduler(config, tmp_path_factory.mktemp("scheduler")):
            yield process


class Cluster:
    """One node of two cards of 8 GiB, and ReplicaSets of one pod each, which the real controller makes anew."""

    def __init__(self, world, node):
        self.world, self.node, self.names = world, node, []

    def spec(self, memory, priority):
        resources = {"limits": {MEMORY: str(memory)}}
        return {
            "schedulerName": NAME,
            "nodeSelector": {"accelkit-test": self.node},
            "tolerations": [{"operator": "Exists"}],
            "priorityClassName": f"defrag-{priority}",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "busybox", "resources": resources}],
        }

    async def replica_set(self, memory, priority, *, finalizers=()):
        """Run a pod that is made anew; return it once it is bound."""
        name = f"{self.node}-r{len(self.names)}"
        self.names.append(name)
        labels = {"defrag": name}
        template = {"metadata": {"labels": labels}, "spec": self.spec(memory, priority)}
        template["metadata"]["finalizers"] = list(finalizers)
        body = {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
        await self.world.api.post(REPLICA_SETS, body)

        async def bound():
            return [each for each in await self.pods_of(name) if each["spec"].get("nodeName")]

        (pod,) = await until(bound)
        await self.world.phase(pod, "Running")
        return pod

    async def pods_of(self, name):
        found = await self.world.api.get(PODS, query={"labelSelector": f"defrag={name}"})
        return msgspec.json.decode(found)["items"]

    async def waiting(self, memory, priority):
        """A pod that kube-scheduler has refused."""
        pod = await self.world.pod(memory, spec=self.spec(memory, priority))
        await self.world.unschedulable(pod)
        return pod

    async def replacement_of(self, pod):
        """The pod that the controller made instead, once it is there."""
        name = pod["metadata"]["labels"]["defrag"]

        async def made():
            return [each for each in await self.pods_of(name) if each["metadata"]["uid"] != pod["metadata"]["uid"]]

        return (await until(made))[0]

    async def close(self):
        for name in self.names:
            await self.world.api.delete(f"{REPLICA_SETS}/{name}", {"propagationPolicy": "Background"})
            for each in await self.pods_of(name):
                path = f"{PODS}/{each['metadata']['name']}"
                with contextlib.suppress(ApiError):
                    await self.world.api.patch(path, {"metadata": {"finalizers": None}})


@contextlib.asynccontextmanager
async def cluster_of(control_plane, process):
    async with world_of(control_plane.kubeconfig) as world, client_of(process) as extender:
        await create_classes(world.api)
        amounts = {"cpu": "8", "memory": "8Gi", "pods": "20", MEMORY: "16"}
        node = await world.node(2, 8, allocatable=amounts)
        await extender.shows(node, lambda view: view["state"] == "shared")
        cluster = Cluster(world, node)
        try:
            yield cluster, extender
        finally:
            await cluster.close()


async def test_waiting_pod_gets_freed_cards_instead_of_replacement_pod(control_plane, process):
    async with cluster_of(control_plane, process) as (cluster, _):
        running = [await cluster.replica_set(5, "low"), await cluster.replica_set(5, "middle")]
        waiting = await cluster.waiting(5, "high")
        plan, said = await finish(await start_defrag(control_plane.kubeconfig, "--apply", "--yes", "-o", "json"))
        evicted = {each["uid"] for step in plan["steps"] for each in step["evictions"]}
        assert evicted == {running[0]["metadata"]["uid"]}, said
        bound = await cluster.world.read(waiting)
        assert bound["spec"].get("nodeName") == cluster.node, said
        assert HOLD_CONDITION not in str(bound)
        replacement = await cluster.replacement_of(running[0])
        assert not replacement["spec"].get("nodeName")
        assert sorted((await cluster.world.charged(cluster.node)).values()) == [5, 5]


async def test_hold_on_cards_survives_extender_restart(control_plane, process):
    async with cluster_of(control_plane, process) as (cluster, extender):
        running = await cluster.replica_set(5, "low", finalizers=[FINALIZER])
        await cluster.replica_set(5, "middle")
        waiting = await cluster.waiting(5, "high")
        applied = await start_defrag(control_plane.kubeconfig, "--apply", "--yes", "-o", "json")
        # The one that was evicted has not ended; the one in its place waits already.
        replacement = await cluster.replacement_of(running)
        await extender.shows(cluster.node, lambda view: "claimed" in stages(view))
        process.signal(signal.SIGKILL)
        process.process.wait()
        process.start()
        await extender.ready()
        assert "claimed" in stages(await extender.node(cluster.node))
        await cluster.world.api.patch(f"{PODS}/{running['metadata']['name']}", {"metadata": {"finalizers": None}})
        _, said = await finish(applied)
        assert f"default/{waiting['metadata']['name']} is bound to {cluster.node}" in said
        assert not (await cluster.world.read(replacement))["spec"].get("nodeName")


async def test_user_with_edit_role_cannot_hold_cards(control_plane):
    async with world_of(control_plane.kubeconfig) as world:
        role = {"apiGroup": "rbac.authorization.k8s.io"}
        subject, name = {**role, "kind": "User", "name": "defrag-tenant"}, f"{world.prefix}-edit"
        reference = {**role, "kind": "ClusterRole", "name": "edit"}
        await world.api.post(BINDINGS, {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]})
        condition = {"type": HOLD_CONDITION, "status": "True", "message": "{}"}
        pod = await world.pod(1)
        path = f"{PODS}/{pod['metadata']['name']}"
        async with acting_as(control_plane.kubeconfig, "defrag-tenant", "system:authenticated") as tenant:

            async def may_edit():
                with contextlib.suppress(ApiError):
                    return await tenant.patch(path, {"metadata": {"labels": {"a": "b"}}})

            await until(may_edit)
            with pytest.raises(ApiError, match="forbidden"):
                await tenant.patch(f"{path}/status", {"status": {"conditions": [condition]}})
            # Beside the status subresource, the API server ignores what a user writes into the status.
            await tenant.patch(path, {"status": {"conditions": [condition]}})
            made = {**pod, "metadata": {"name": f"{world.prefix}-forged"}, "status": {"conditions": [condition]}}
            forged = msgspec.json.decode(await tenant.post(PODS, made))
            await tenant.delete(f"{PODS}/{world.prefix}-forged", {"gracePeriodSeconds": 0})
        assert HOLD_CONDITION not in str(forged["status"])
        assert HOLD_CONDITION not in str(await world.read(pod))
        await world.api.delete(f"{BINDINGS}/{name}")
