"""The policy fragmentation through the real kube-scheduler and the real extender: it learns from the pods that come."""

import pytest
from extender_process import MEMORY, Process, client_of, world_of
from real_scheduler import build_configuration, run_scheduler
from support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NAME = "fragmentation-scheduler"
CARDS = "accelkit.io/cards"
# So much that the pods of a test make little difference to kube-scheduler's own scores.
AMPLE = {"cpu": "1000", "memory": "8Ti", "pods": "1000", MEMORY: "1000", CARDS: "100"}


@pytest.fixture(scope="module")
def extender(control_plane, tmp_path_factory):
    options = ["--kubeconfig", str(control_plane.kubeconfig), "--policy", "fragmentation"]
    with Process(tmp_path_factory.mktemp("logs"), *options) as process:
        yield process


@pytest.fixture(scope="module")
def scheduler(control_plane, extender, tmp_path_factory):
    verbs = {f"{verb}Verb": verb for verb in ("filter", "prioritize", "bind")}
    managed = [{"name": name, "ignoredByScheduler": False} for name in (MEMORY, CARDS)]
    entry = {"urlPrefix": extender.url, **verbs, "weight": 10, "nodeCacheCapable": True, "managedResources": managed}
    kubeconfig = control_plane.paths.build_kubeconfig_path("kube-scheduler")
    with run_scheduler(build_configuration(NAME, kubeconfig, entry), tmp_path_factory.mktemp("scheduler")) as log:
        yield log


class Nodes:
    """Nodes of one test, and pods that go to one of them."""

    def __init__(self, world, client, log):
        self.world, self.client, self.log = world, client, log
        self.names = []

    async def add(self, cards, **allocatable):
        name = await self.world.node(cards, 80, allocatable=AMPLE | allocatable)
        await self.client.shows(name, lambda view: view["state"] == "shared")
        self.names.append(name)
        return name

    async def create(self, *, memory=0, cards=0, cpu="0", only=None):
        """Create a pod, with the CPU that it requests; it goes to one of the nodes, or to this one."""
        among = {"key": "accelkit-test", "operator": "In", "values": [only] if only else self.names}
        required = {"nodeSelectorTerms": [{"matchExpressions": [among]}]}
        limits = {MEMORY: str(memory)} if memory else {CARDS: str(cards)} if cards else {}
        resources = {"limits": limits, "requests": {"cpu": cpu}}
        spec = {
            "schedulerName": NAME,
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "busybox", "resources": resources}],
        }
        return await self.world.pod(spec=spec)

    async def place(self, **asked):
        """Create a pod and wait until it is bound; return its node."""
        pod = await self.create(**asked)

        async def bound():
            return (await self.world.read(pod))["spec"].get("nodeName")

        try:
            return await until(bound)
        except AssertionError as exc:
            raise AssertionError(self.log.read_text()[-4000:]) from exc

    async def learn(self, **asked):
        """Let pods come that nobody schedules: what they ask for is learnt all the same."""
        for _ in range(8):
            limits = {MEMORY: str(asked["memory"])}
            resources = {"limits": limits, "requests": {"cpu": asked.get("cpu", "0")}}
            await self.world.pod(spec={"containers": [{"name": "main", "image": "busybox", "resources": resources}]})


@pytest.fixture
async def nodes(control_plane, extender, scheduler):
    async with world_of(control_plane.kubeconfig) as world, client_of(extender) as client:
        yield Nodes(world, client, scheduler)


async def test_share_is_placed_without_unusable_remainder(nodes):
    await nodes.learn(memory=50)
    await nodes.learn(memory=30)
    roomy, tight = await nodes.add(1), await nodes.add(1)
    assert await nodes.place(memory=20, only=roomy) == roomy
    assert await nodes.place(memory=50, only=tight) == tight
    # 30 of 60 would leave what no 50 fits; 30 of 30 leaves nothing.
    assert await nodes.place(memory=30) == tight
    assert await nodes.place(memory=50) == roomy


async def test_pod_without_cpu_request_is_placed_on_node_without_free_cpu(nodes):
    await nodes.learn(memory=70, cpu="4")
    rich, poor = await nodes.add(2, cpu="64"), await nodes.add(2, cpu="64")
    # A pod without cards, which the extender is not asked about, takes the CPU.
    assert await nodes.place(cpu="62", only=poor) == poor
    assert await nodes.place(memory=70) == poor
    assert await nodes.place(memory=70, cpu="4") == rich
