"""driver.yml gives nodes another driver, one after the other, and a later run goes on with what an earlier one began.

What a driver's container does to its host is done to the node's files, which the agents read.
"""

import asyncio
import contextlib
import json
import os
import signal
from itertools import pairwise

import pytest
from conftest import BIN, REPOSITORY, Cluster, Sandbox
from standin_driver import StandinDriver
from support.waiting import until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.paths import NODES, build_node_path
from accelkit.model.keys import DRIVER_UPGRADE_ANNOTATION, INVENTORY_ANNOTATION
from accelkit.sandbox.fake_host.host import FakeHost

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(1800)]

KERNEL = "6.1.0-18-amd64"
NAMES = ("node-1", "node-2")
SPECS = "nodes:\n" + "".join(
    f"  - name: {name}\n    kernel: {KERNEL}\n    system: Debian GNU/Linux 12 (bookworm)\n"
    '    labels: {feature.node.kubernetes.io/pci-1e36.present: "true"}\n'
    for name in NAMES
)
OLD, NEW = "1.0.1", "2.0.2"
DRIVER_PODS = "/api/v1/namespaces/accelkit/pods"
CONTAINERS = {"labelSelector": "app.kubernetes.io/component=driver-container"}
SECONDS = 300.0
# Who holds a share, and is to leave; a cordon lets it go to the other node only.
HOLDER = {
    "metadata": {"name": "holder"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "holder"}},
        "template": {
            "metadata": {"labels": {"app": "holder"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {"name": "main", "image": "busybox", "resources": {"limits": {"accelkit.io/memory": "4"}}}
                ],
            },
        },
    },
}


def settle(version, **more):
    """Settings of a run that wants this version, as arguments of ansible-playbook."""
    image = "registry.invalid/enflame:${DRIVER_VERSION}-${KERNEL_FULL_VERSION}"
    settings = {
        "accelkit_driver_mode": "container",
        "accelkit_driver_vendors": {"enflame": {"version": version, "image": image, "module": "enflame"}},
        "accelkit_driver_timeout": 300,
        "accelkit_monitoring": False,
        "accelkit_stages": False,
        "driver_look_for_images": False,
    }
    return ("-e", json.dumps({**settings, **more}))


class Watched:
    """The two nodes while playbooks run: what becomes of each, and their drivers, which go and come with their pods.

    Attributes:
        held: versions whose containers run and load nothing.
        steps: (node, whether it is cordoned, phase of its upgrade, versions of its driver), each time one has changed.
    """

    def __init__(self, api, drivers):
        self.held, self.steps = set(), []
        self._api, self._drivers = api, drivers
        self._loaded, self._known, self._before = {}, {}, {}

    async def watch(self):
        while True:
            for node in json.loads(await self._api.get(NODES))["items"]:
                self._note(node)
            self._move_drivers(json.loads(await self._api.get(DRIVER_PODS, query=CONTAINERS))["items"])
            await asyncio.sleep(0.2)

    def read(self, node):
        """Whether it is cordoned, the phase of its upgrade, and the versions that its cards name."""
        return self._known[node]

    def begin(self):
        """Forget the steps until now."""
        self.steps.clear()
        self._before = {node: state[:2] for node, state in self._known.items()}

    def list_steps(self, node):
        """The cordon and the phase of a node, each time one of both has changed since the beginning."""
        found = [self._before[node], *(step[1:3] for step in self.steps if step[0] == node)]
        return [now for before, now in pairwise(found) if now != before]

    async def until(self, accept):
        await until(
            lambda: self._known, accept=lambda known: known.keys() == set(NAMES) and accept(known), seconds=SECONDS
        )

    def _note(self, node):
        name, annotations = node["metadata"]["name"], node["metadata"].get("annotations", {})
        record = json.loads(annotations.get(DRIVER_UPGRADE_ANNOTATION, "{}"))
        cards = json.loads(annotations.get(INVENTORY_ANNOTATION, '{"cards": []}'))["cards"]
        versions = tuple(sorted({card.get("driver_version", "") for card in cards}))
        state = (node["spec"].get("unschedulable", False), record.get("phase", ""), versions)
        if self._known.get(name) != state:
            self._known[name] = state
            self.steps.append((name, *state))

    def _move_drivers(self, pods):
        running = {each["spec"].get("nodeName"): each for each in pods if each["status"].get("phase") == "Running"}
        for name, driver in self._drivers.items():
            pod = running.get(name)
            uid = pod and pod["metadata"]["uid"]
            if self._loaded.get(name) != uid:
                driver.unload()
                self._loaded.pop(name, None)
                version = pod and pod["spec"]["containers"][0]["image"].rpartition(":")[2].partition("-")[0]
                if pod and version not in self.held:
                    assert driver.load(KERNEL, version)
                    self._loaded[name] = uid


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(SPECS) as sandbox:
        yield sandbox


@pytest.fixture
async def cluster(sandbox):
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        yield Cluster(api, sandbox)


@pytest.fixture
async def watched(cluster):
    drivers = {}
    for name in NAMES:
        host = FakeHost(cluster.sandbox.paths.nodes / name, name=name).add("enflame", 1, "S60")
        drivers[name] = StandinDriver(host, KERNEL)
        drivers[name].unload()
    watched = Watched(cluster.api, drivers)
    watching = asyncio.create_task(watched.watch())
    yield watched
    watching.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await watching


async def play(cluster, name, *arguments, check=True):
    return await asyncio.to_thread(cluster.sandbox.playbook, name, *arguments, check=check)


async def find_holder(cluster):
    """The node of the pod that holds a share, once it runs."""

    async def list_pods():
        return (await cluster.get("/api/v1/namespaces/default/pods"))["items"]

    running = lambda pods: len(pods) == 1 and pods[0]["status"]["phase"] == "Running"  # noqa: E731
    return (await until(list_pods, accept=running, seconds=SECONDS, every=0.2))[0]["spec"]["nodeName"]


async def cordon(cluster, name, *, unschedulable):
    await cluster.api.patch(build_node_path(name), {"spec": {"unschedulable": unschedulable or None}})


async def test_drivers_are_upgraded_node_by_node_and_later_run_continues(cluster, watched):
    await play(cluster, "site.yml", *settle(OLD))
    await watched.until(lambda known: set(known.values()) == {(False, "", (OLD,))})
    # So that it is on the first.
    await cordon(cluster, "node-2", unschedulable=True)
    await cluster.api.post("/apis/apps/v1/namespaces/default/deployments", HOLDER)
    assert await find_holder(cluster) == "node-1"
    await cordon(cluster, "node-2", unschedulable=False)
    await watched.until(lambda known: not known["node-2"][0])

    # The new driver does not come up: the first node says so, and the second is left as it is.
    watched.held.add(NEW)
    watched.begin()
    done = await play(cluster, "playbooks/driver.yml", *settle(NEW, accelkit_driver_timeout=5), check=False)
    assert done.returncode != 0
    assert "node node-1: after 5 s, the driver of node node-1 does not work: Driver" in done.stdout
    assert watched.list_steps("node-1") == [(True, "drain"), (True, "upgrade"), (False, "failed")]
    assert watched.list_steps("node-2") == []
    assert watched.read("node-2") == (False, "", (OLD,))
    assert await find_holder(cluster) == "node-2"

    # A run that is killed leaves the node cordoned, and what it was about.
    watched.begin()
    killed = await asyncio.create_subprocess_exec(
        *(BIN / "ansible-playbook", "playbooks/driver.yml", "-i", "inventories/sandbox", *settle(NEW)),
        cwd=REPOSITORY,
        env=cluster.sandbox.environ,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        await watched.until(lambda known: known["node-1"][:2] == (True, "upgrade"))
    finally:
        os.killpg(killed.pid, signal.SIGKILL)
        await killed.wait()
    assert watched.list_steps("node-1") == [(True, "drain"), (True, "upgrade")]

    # The next goes on there; a node that somebody cordoned is upgraded where it is named, and stays cordoned.
    await cordon(cluster, "node-2", unschedulable=True)
    await watched.until(lambda known: known["node-2"][0])
    watched.held.clear()
    watched.begin()
    done = await play(cluster, "playbooks/driver.yml", *settle(NEW, accelkit_driver_nodes=list(NAMES)))
    await watched.until(lambda known: known == {"node-1": (False, "", (NEW,)), "node-2": (True, "", (NEW,))})
    assert watched.list_steps("node-1")[-1] == (False, "")
    assert (True, "drain") not in watched.list_steps("node-1")
    assert [phase for _, phase in watched.list_steps("node-2")] == ["drain", "upgrade", ""]
    assert all(cordoned for cordoned, _ in watched.list_steps("node-2"))
    # The first works before the second is begun.
    order = [step for step in watched.steps if step[:3] in {("node-1", False, ""), ("node-2", True, "drain")}]
    assert order[0] == ("node-1", False, "", (NEW,))
    assert await find_holder(cluster) == "node-1"

    done = await play(cluster, "playbooks/driver.yml", *settle(NEW))
    assert "changed=0" in done.stdout
    assert "all nodes whose driver is known run the configured driver" in done.stdout
