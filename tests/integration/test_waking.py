"""Pods that kube-scheduler has refused are woken by one annotation; the extender may write nothing else on a node."""

import asyncio
import contextlib
import re
import time

import msgspec
import pytest
from extender_process import MEMORY, NODES, Process, client_of, inventory, world_of
from real_scheduler import run_scheduler
from ruamel.yaml import YAML
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.model.keys import FREED_AT_ANNOTATION, INVENTORY_ANNOTATION

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NAME = "waking-scheduler"
CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
WAITING = 500
BOUND = "the extender may change only the annotation accelkit.io/freed-at of a node"


@contextlib.asynccontextmanager
async def extender_of(kubeconfig, folder):
    """The API as the service account of the installed extender."""
    account = "/api/v1/namespaces/accelkit/serviceaccounts/accelkit-extender/token"
    async with ApiClient(load_connection(kubeconfig)) as admin:
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = msgspec.json.decode(await admin.post(account, request))["status"]["token"]
        yaml = YAML(typ="safe", pure=True)
        document = yaml.load(kubeconfig.read_text())
        document["users"] = [{"name": user["name"], "user": {"token": token}} for user in document["users"]]
        with (folder / "kubeconfig").open("w") as file:
            yaml.dump(document, file)
        async with ApiClient(load_connection(folder / "kubeconfig")) as api:
            yield admin, api


FREED = {FREED_AT_ANNOTATION: "2026-01-01T00:00:00.000000+00:00"}
REFUSED = {
    "label": {"metadata": {"labels": {"accelkit.io/x": "y"}}},
    "label beside it": {"metadata": {"labels": {"accelkit.io/x": "y"}, "annotations": FREED}},
    "label gone": {"metadata": {"labels": {"kubernetes.io/os": None}}},
    "other annotation": {"metadata": {"annotations": {"accelkit.io/x": "y"}}},
    "cards": {"metadata": {"annotations": {**FREED, INVENTORY_ANNOTATION: "{}"}}},
    "annotation gone": {"metadata": {"annotations": {INVENTORY_ANNOTATION: None}}},
    "finalizer": {"metadata": {"finalizers": ["accelkit.io/x"]}},
    "owner": {
        "metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": "0"}]}
    },
    "taint": {"spec": {"taints": [{"key": "accelkit.io/x", "effect": "NoSchedule"}]}},
    "unschedulable": {"spec": {"unschedulable": True}},
}


async def test_extender_writes_only_one_annotation_on_node(installed, tmp_path):
    path = f"{NODES}/node-1"

    def stable(node):
        meta, status = node["metadata"], node["status"]
        kept = {key: value for key, value in meta.items() if key not in ("managedFields", "resourceVersion")}
        return kept, node["spec"], status["capacity"], status["allocatable"]

    async with extender_of(installed.kubeconfig, tmp_path) as (admin, extender):

        async def node():
            return stable(msgspec.json.decode(await admin.get(path)))

        await extender.patch(path, {"metadata": {"annotations": FREED}})
        before = await node()
        assert before[0]["annotations"][FREED_AT_ANNOTATION] == FREED[FREED_AT_ANNOTATION]
        for name, body in REFUSED.items():
            with pytest.raises(ApiError, match=BOUND):
                await extender.patch(path, body)
            assert await node() == before, name
        with pytest.raises(ApiError, match="must be a time"):
            await extender.patch(path, {"metadata": {"annotations": {FREED_AT_ANNOTATION: "x" * 41}}})
        for kind, denied in {
            "nodes/status": extender.patch(f"{path}/status", {"status": {"allocatable": {"accelkit.io/memory": "1"}}}),
            "nodes": extender.put(path, {"metadata": {"name": "node-1"}}),
        }.items():
            with pytest.raises(ApiError, match=f'resource "{kind}".* is forbidden|forbidden.*"{kind}"'):
                await denied
        with pytest.raises(ApiError, match="forbidden"):
            await extender.post(NODES, {"metadata": {"name": "another"}})
        with pytest.raises(ApiError, match="forbidden"):
            await extender.delete(path)
        assert await node() == before


def configuration(control_plane, url):
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(control_plane.paths.build_kubeconfig_path("kube-scheduler"))},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": NAME}],
        "extenders": [
            {
                "urlPrefix": url,
                "filterVerb": "filter",
                "bindVerb": "bind",
                "nodeCacheCapable": True,
                "managedResources": [{"name": MEMORY, "ignoredByScheduler": True}],
            }
        ],
    }


class Card:
    """The one card of a node: bad while a ConfigMap says so, which kube-scheduler does not look at."""

    def __init__(self, world, node):
        self._world, self._node = world, node
        self._name = f"unhealthy-gpu-{node}"

    async def fails(self):
        await self._world.api.post(CONFIG_MAPS, {"metadata": {"name": self._name}, "data": {"gpus": f"{self._node}-0"}})

    async def returns(self):
        await self._world.api.delete(f"{CONFIG_MAPS}/{self._name}")


async def written(extender):
    """How many nodes were written on."""
    _, text = await extender.ask("GET", "/metrics")
    found = re.search(rb'^accelkit_extender_wakes_total\{result="written"\} (\S+)', text, re.MULTILINE)
    return int(float(found[1])) if found else 0


async def refused(world, count):
    """Wait until kube-scheduler has refused so many pods."""

    async def all_refused():
        pods = msgspec.json.decode(await world.api.get("/api/v1/namespaces/default/pods"))["items"]
        conditions = (each for pod in pods for each in pod["status"].get("conditions", ()))
        return sum(each.get("reason") == "Unschedulable" for each in conditions) == count

    await until(all_refused, seconds=120, every=0.5)


async def refuse(world, pod):
    """Write on a pod what kube-scheduler writes where it has found no node."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}/status"
    await world.api.patch(path, {"status": {"conditions": [condition]}})


@pytest.mark.extended
async def test_pod_that_fits_recovered_card_is_bound_among_many_waiting_pods(control_plane, tmp_path, record_property):
    arguments = ("--kubeconfig", str(control_plane.kubeconfig), "--dialect", "native", "--dialect", "aliyun", "--wake")
    async with world_of(control_plane.kubeconfig) as world:
        with Process(tmp_path, *arguments) as process:
            async with client_of(process) as extender:
                node = await world.node(1, 16, allocatable={"cpu": "64", "memory": "64Gi", "pods": "1000"})
                card = Card(world, node)
                await card.fails()
                await extender.shows(node, lambda view: view["cards"] and view["cards"][0].get("cordoned"))
                placement = {
                    "schedulerName": NAME,
                    "nodeSelector": {"accelkit-test": node},
                    "tolerations": [{"operator": "Exists"}],
                }
                with run_scheduler(configuration(control_plane, process.url), tmp_path):
                    for _ in range(WAITING // 50):
                        await asyncio.gather(*(world.pod(17, spec=placement) for _ in range(50)))
                    # Behind all others in the queue.
                    fits = await world.pod(12, spec=placement)
                    await refused(world, WAITING + 1)
                    assert await written(extender) == 0

                    await card.returns()
                    returned = time.monotonic()

                    # After some 50 s the node itself changes, since it has no kubelet.
                    async def bound():
                        return (await world.read(fits))["spec"].get("nodeName")

                    assert await until(bound, seconds=45, every=0.02) == node
                    record_property("seconds_to_binding", round(time.monotonic() - returned, 2))
                    # Where kube-scheduler was just trying the pod, it needs no waking.
                    await asyncio.sleep(2)
                    woken = await written(extender)
                    assert woken <= 1

                    # A card that comes and goes is announced now and then while a pod waits for it…
                    await refuse(world, await world.pod(4, spec={**placement, "schedulerName": "none"}))
                    begun = time.monotonic()
                    for _ in range(40):
                        await card.fails()
                        # Long enough for one of the looks at the ledger to fall into it.
                        await asyncio.sleep(0.1)
                        await card.returns()
                        await asyncio.sleep(0.1)
                    elapsed = time.monotonic() - begun
                    record_property("seconds_of_churn", round(elapsed, 1))
                    await until(lambda: written(extender), accept=lambda found: found > woken)
                    record_property("writes_under_churn", await written(extender) - woken)
                    assert await written(extender) - woken <= elapsed / 2 + 2


async def test_no_annotation_is_written_without_waiting_pod(control_plane, tmp_path):
    arguments = ("--kubeconfig", str(control_plane.kubeconfig), "--wake")
    async with world_of(control_plane.kubeconfig) as world:
        with Process(tmp_path, *arguments) as process:
            async with client_of(process) as extender:
                await until(extender.wakes)
                node, other = await world.node(1, 16), await world.node(1, 16)
                for text in ("", inventory(node, 1, 16)):
                    await world.annotate(node, text or None)
                    await extender.shows(node, lambda view, text=text: bool(view["cards"]) == bool(text))
                # A pod that no scheduler has tried cannot be woken; one that was refused waits for the cards of the
                # other node alone. Nodes freed first are written first.
                await world.pod(16)
                await refuse(world, await world.pod(32))
                await world.annotate(other, inventory(other, 1, 32))

                async def announced():
                    return await written(extender)

                assert await until(announced) == 1
                touched = {
                    item["metadata"]["name"]
                    for item in msgspec.json.decode(await world.api.get(NODES))["items"]
                    if FREED_AT_ANNOTATION in item["metadata"].get("annotations", {})
                }
                assert touched & {node, other} == {other}
