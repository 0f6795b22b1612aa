"""Pins, neighbours, quotas and reservations on the real kube-scheduler, with the extender as it is shipped."""

import contextlib
import json

import msgspec
import pytest
from extender_process import ASSIGNMENT, CARDS, GIB, MEMORY, PODS, Process, client_of, world_of
from real_scheduler import build_configuration, run_scheduler
from support.waiting import until

from accelkit.errors import ApiError

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NAME = "sharing-scheduler"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
EVENTS = "/api/v1/namespaces/default/events"
WEB = {"matchLabels": {"app": "web"}}


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    path = tmp_path_factory.mktemp("rules") / "rules.yaml"
    path.write_text("{}")
    return path


@pytest.fixture(scope="module")
def extender(control_plane, rules, tmp_path_factory):
    arguments = ["--kubeconfig", str(control_plane.kubeconfig), "--wake", "--sharing-rules", str(rules)]
    with Process(tmp_path_factory.mktemp("logs"), *arguments) as process:
        yield process


@pytest.fixture(scope="module")
def scheduler(control_plane, extender, tmp_path_factory):
    entry = {
        "urlPrefix": extender.url,
        "filterVerb": "filter",
        "bindVerb": "bind",
        "nodeCacheCapable": True,
        "managedResources": [{"name": name, "ignoredByScheduler": True} for name in (MEMORY, CARDS)],
    }
    config = build_configuration(NAME, control_plane.paths.build_kubeconfig_path("kube-scheduler"), entry)
    with run_scheduler(config, tmp_path_factory.mktemp("scheduler")) as log:
        yield log


class Rules:
    """The file of rules, which is without rules again when its test has ended."""

    def __init__(self, path, client):
        self._path, self._client = path, client

    async def write(self, *, current=True, **document):
        """Write the file, and wait until the extender has taken or refused it."""
        await self._put(json.dumps(document), current=current)

    async def _put(self, text, *, current):
        before = len(await self._read())
        self._path.write_text(text)

        async def followed():
            # Each rules that are taken, and each that are refused, are one line.
            return len(await self._read()) > before

        await until(followed)
        _, metrics = await self._client.ask("GET", "/metrics")
        assert f"accelkit_sharing_rules_current {float(current)}" in metrics.decode()

    async def _read(self):
        lines = self._client.process.log.read_text().splitlines()
        return [line for line in lines if str(self._path) in line]


class Cluster:
    def __init__(self, world, client, rules):
        self.world, self.client, self.rules = world, client, rules

    async def node(self, *, cards=2):
        name = await self.world.node(cards, 16, allocatable={"cpu": "4", "memory": "8Gi", "pods": "20"})
        await self.client.shows(name, lambda view: view["state"] == "shared")
        return name

    async def pod(self, node, memory, *, request=None, labels=None, **spec):
        annotations = {"accelkit.io/request": json.dumps({"main": request})} if request else {}
        placement = {
            "schedulerName": NAME,
            "nodeSelector": {"accelkit-test": node},
            "tolerations": [{"operator": "Exists"}],
            **spec,
        }
        return await self.world.pod(memory, annotations=annotations, labels=labels or {}, spec=placement)

    async def card(self, pod):
        """Wait until a pod is bound; return the number of its card."""

        async def assigned():
            return (await self.world.read(pod))["metadata"].get("annotations", {}).get(ASSIGNMENT)

        (share,) = json.loads(await until(assigned))["containers"]["main"]
        return int(share["card"].rpartition("-")[2])

    async def refused(self, pod, words):
        """Wait until an event of kube-scheduler says so of a pod that is not bound."""
        query = f"{EVENTS}?fieldSelector=involvedObject.uid={pod['metadata']['uid']},reason=FailedScheduling"
        await until(
            lambda: self.world.api.get(query),
            accept=lambda events: any(
                words in event.get("message", "") for event in msgspec.json.decode(events)["items"]
            ),
        )
        assert "nodeName" not in (await self.world.read(pod))["spec"]


@pytest.fixture
async def cluster(control_plane, extender, scheduler, rules):
    async with world_of(control_plane.kubeconfig) as world, client_of(extender) as client:
        yield Cluster(world, client, Rules(rules, client))
        if rules.read_text() != "{}":
            await Rules(rules, client).write()


async def test_quota_refuses_pod_despite_forged_assignment_until_release(cluster):
    node = await cluster.node()
    await cluster.rules.write(
        quotas=[{"namespaces": ["kube-*"], "cards": 0}, {"namespaces": ["d*"], "memory": "10GiB"}]
    )
    held = await cluster.pod(node, 8)
    await cluster.card(held)
    # The assignment of the pod that holds most is made to say that it holds next to nothing.
    lie = json.dumps({"version": 1, "containers": {"main": [{"card": f"{node}-0", "memory_bytes": 1}]}})
    path = f"{PODS}/{held['metadata']['name']}"
    await cluster.world.api.patch(path, {"metadata": {"annotations": {ASSIGNMENT: lie}, "labels": {"x": "y"}}})
    beyond = await cluster.pod(node, 4, request={"compute": 0}, labels={"accelkit.io/quota": "1TiB"})
    sentence = "namespace default holds 8 GiB of its quota of 10 GiB (memory); the pod requests 4 GiB"
    await cluster.refused(beyond, sentence)
    answer = await cluster.client.post("/simulate", {"pod": await cluster.world.read(beyond), "nodes": [node]})
    assert answer["refusal"] == sentence
    # Who calls past filter is refused as well.
    assert await cluster.client.bind(beyond, node) == sentence
    # Rules that cannot be read change nothing.
    await cluster.rules.write(current=False, quotas="none")
    assert (await cluster.client.filter(await cluster.world.read(beyond), node))["FailedNodes"] == {node: sentence}
    await cluster.world.delete(held, seconds=0)
    await cluster.card(beyond)
    assert await cluster.client.used(node) == 4


async def test_changed_rules_admit_waiting_pod(cluster):
    node = await cluster.node()
    await cluster.rules.write(quotas=[{"namespaces": ["default"], "memory": 0}])
    pod = await cluster.pod(node, 4)
    await cluster.refused(pod, "namespace default holds 0 of its quota of 0 (memory)")
    await cluster.rules.write(quotas=[{"namespaces": ["default"], "memory": f"{4 * GIB}"}])
    await cluster.card(pod)


async def test_reserved_cards_require_priority(cluster):
    node = await cluster.node()
    name = f"{cluster.world.prefix}-high"
    await cluster.world.api.post(CLASSES, {"metadata": {"name": name}, "value": 1000, "preemptionPolicy": "Never"})
    try:
        reserved = {"name": "night", "cards": [{"nodes": [node], "count": 1}], "for": [{"priority": 1000}]}
        await cluster.rules.write(reservations=[reserved])
        assert await cluster.card(await cluster.pod(node, 12)) == 1
        beyond = await cluster.pod(node, 12)
        await cluster.refused(beyond, "the cards with room are reserved for priority 1000 and above (night)")
        with pytest.raises(ApiError, match="priority"):
            await cluster.pod(node, 12, priority=5000)
        assert await cluster.card(await cluster.pod(node, 2, priorityClassName=name)) == 1
        assert await cluster.card(await cluster.pod(node, 12, priorityClassName=name)) == 0
    finally:
        with contextlib.suppress(ApiError):
            await cluster.world.api.delete(f"{CLASSES}/{name}")


async def test_replicas_use_separate_cards_and_dependent_pods_share_them(cluster):
    node = await cluster.node()
    waits = await cluster.pod(node, 1, request={"with": WEB})
    await cluster.refused(waits, "no room on the cards that the pod must share with pods that have app=web")
    replicas = [await cluster.pod(node, 2, request={"apart": WEB}, labels={"app": "web"}) for _ in range(2)]
    assert sorted([await cluster.card(pod) for pod in replicas]) == [0, 1]
    await cluster.card(waits)
    third = await cluster.pod(node, 2, request={"apart": WEB}, labels={"app": "web"})
    await cluster.refused(
        third, "the pod must not share cards with pods that have app=web, and these use every card with room"
    )
    # It keeps nobody else off, whatever labels a stranger has.
    await cluster.card(await cluster.pod(node, 2, labels={"app": "web", "tier": "stranger"}))
    gone = await cluster.card(replicas[0])
    stranger = await cluster.world.api.get(f"{PODS}?labelSelector=tier=stranger")
    (found,) = msgspec.json.decode(stranger)["items"]
    for pod in (found, replicas[0]):
        await cluster.world.delete(pod, seconds=0)
    assert await cluster.card(third) == gone


async def test_pinned_pod_gets_named_card_or_is_refused(cluster):
    node = await cluster.node()
    assert await cluster.card(await cluster.pod(node, 2, request={"card_ids": [f"{node}-1"]})) == 1
    await cluster.refused(
        await cluster.pod(node, 2, request={"card_ids": ["GPU-elsewhere"]}),
        "no room on the cards that the pod names (GPU-elsewhere)",
    )
    await cluster.refused(
        await cluster.pod(node, 2, request={"card_ids": [""]}), "card_ids can contain at most 128 IDs"
    )


async def test_invalid_rules_at_start_stop_extender_with_next_step(control_plane, tmp_path):
    path = tmp_path / "rules.yaml"
    path.write_text("quota: []")
    arguments = ["--kubeconfig", str(control_plane.kubeconfig), "--sharing-rules", str(path)]
    with Process(tmp_path, *arguments) as process:
        assert await process.ended(seconds=45) == 1
    told = process.log.read_text()
    assert "unknown field `quota`" in told
    assert "correct the file" in told
