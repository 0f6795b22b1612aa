"""The node agent against a real API server: what it may write, and that it believes its kubelet."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from contextlib import asynccontextmanager

import msgspec
import pytest
from conftest import PODS, Cluster
from ruamel.yaml import YAML
from test_pods import cards_of

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import Connection
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

AGENTS = "/apis/apps/v1/namespaces/accelkit/daemonsets/accelkit-node-agent"
ACCOUNT = "/api/v1/namespaces/accelkit/serviceaccounts/accelkit-node-agent/token"


@asynccontextmanager
async def agent_of(cluster: Cluster, node: str):
    """The API server as the node agent of a node sees it: a client with the token of that agent's pod."""
    pods = (await cluster.get("/api/v1/namespaces/accelkit/pods"))["items"]
    (pod,) = [
        p["metadata"] for p in pods if p["spec"].get("nodeName") == node and "node-agent" in p["metadata"]["name"]
    ]
    bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"]}
    answer = json.loads(await cluster.api.post(ACCOUNT, {"spec": {"boundObjectRef": bound}}))
    # Its token alone: the administrator's certificate must not speak for it.
    (server,) = YAML(typ="safe", pure=True).load(cluster.sandbox.kubeconfig.read_text())["clusters"]
    authority = base64.b64decode(server["cluster"]["certificate-authority-data"]).decode()
    tls = ssl.create_default_context(cadata=authority)
    bearer = f"Bearer {answer['status']['token']}"
    async with ApiClient(Connection(server["cluster"]["server"], tls, lambda: bearer)) as api:
        yield api


async def annotate(api: ApiClient, pod: str, **annotations: str | None) -> None:
    await api.patch(f"{PODS}/{pod}", {"metadata": {"annotations": annotations}})


async def test_an_agent_writes_our_annotation_on_pods_of_its_own_node_alone(cluster):
    await cluster.create_pod("own", memory=2, node="node-1")
    await cluster.create_pod("other", memory=2, node="node-2")
    await cluster.running("own")
    await cluster.running("other")
    own = (await cluster.get(f"{PODS}/own"))["metadata"]["annotations"][ASSIGNMENT_ANNOTATION]
    async with agent_of(cluster, "node-1") as agent:
        await annotate(agent, "own", **{ASSIGNMENT_ANNOTATION: own})
        with pytest.raises(ApiError, match="changes pods of its own node only"):
            await annotate(agent, "other", **{ASSIGNMENT_ANNOTATION: own})


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"activeDeadlineSeconds": 5}},
        {"metadata": {"labels": {"app": "mine"}}},
        {"metadata": {"annotations": {"example.com/other": "x"}}},
        {"metadata": {"annotations": {"sandbox.accelkit.io/containers": None}}},
        {"metadata": {"finalizers": ["example.com/stay"]}},
    ],
    ids=["spec", "label", "foreign annotation", "annotation taken away", "finalizer"],
)
async def test_an_agent_changes_nothing_else_of_a_pod(cluster, change):
    await cluster.create_pod("own", memory=2, node="node-1")
    await cluster.running("own")
    async with agent_of(cluster, "node-1") as agent:
        with pytest.raises(ApiError, match="the node agent changes no") as refused:
            await agent.patch(f"{PODS}/own", change)
    assert refused.value.status == 422


async def test_an_agent_changes_no_other_node_and_no_spec_of_its_own(cluster):
    async with agent_of(cluster, "node-1") as agent:
        await agent.patch("/api/v1/nodes/node-1", {"metadata": {"annotations": {"accelkit.io/test": None}}})
        with pytest.raises(ApiError, match="changes nodes of its own node only"):
            await agent.patch("/api/v1/nodes/node-2", {"metadata": {"labels": {"x": "y"}}})
        with pytest.raises(ApiError, match="the node agent changes no spec"):
            await agent.patch("/api/v1/nodes/node-1", {"spec": {"unschedulable": True}})
        with pytest.raises(ApiError, match="changes configmaps of its own node only"):
            await agent.post("/api/v1/namespaces/accelkit/configmaps", {"metadata": {"name": "node-2"}})


async def test_a_pod_bound_past_the_scheduler_gets_the_assignment_it_holds(cluster):
    await cluster.create_pod("past", memory=3, node=None, nodeName="node-1")
    given = await cluster.running("past")
    pod = await cluster.until("past", lambda pod: ASSIGNMENT_ANNOTATION in pod["metadata"]["annotations"])
    assigned = json.loads(pod["metadata"]["annotations"][ASSIGNMENT_ANNOTATION])["containers"]["main"]
    assert {share["card"] for share in assigned} == cards_of(given["main"])
    assert sum(share["memory_bytes"] for share in assigned) == 3 * 2**30
    await cluster.told("AssignmentRecorded", "past")


async def test_what_the_kubelet_shows_is_passed_on_for_audits(cluster):
    await cluster.create_pod("shown", memory=2, node="node-1")
    card = next(iter(cards_of((await cluster.running("shown"))["main"])))
    deadline = time.monotonic() + 30
    while True:
        written = await cluster.get("/api/v1/namespaces/accelkit/configmaps/node-1")
        pods = json.loads(written["data"]["allocations.json"])["pods"]
        if any(pod["name"] == "shown" for pod in pods):
            break
        assert time.monotonic() < deadline, pods
        await asyncio.sleep(0.2)
    (pod,) = [pod for pod in pods if pod["name"] == "shown"]
    assert pod == {"namespace": "default", "name": "shown", "containers": {"main": {"memory": {card: 2}}}}


@pytest.fixture
async def unsteered(cluster):
    """The installed sandbox while its node agents leave the choice of devices to the kubelet."""
    agents = await cluster.get(AGENTS)
    arguments = agents["spec"]["template"]["spec"]["containers"][0]["args"]
    await agents_run(cluster, [*arguments, "--no-steering"])
    yield cluster
    await cluster.delete_pods()
    await agents_run(cluster, arguments)


async def agents_run(cluster: Cluster, arguments: list[str]) -> None:
    """Give the node agents other arguments, and wait until all of them run with these."""
    change = [{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": arguments}]
    changed = msgspec.json.decode(await cluster.api.patch(AGENTS, change, kind="json"))
    deadline = time.monotonic() + 60
    while True:
        status = (await cluster.get(AGENTS))["status"]
        seen = status.get("observedGeneration", 0) >= changed["metadata"]["generation"]
        counts = {status.get(each) for each in ("updatedNumberScheduled", "numberReady", "desiredNumberScheduled")}
        if seen and len(counts) == 1:
            break
        assert time.monotonic() < deadline, status
        await asyncio.sleep(0.2)
    # An agent runs before its kubelet knows it; a kubelet that takes a pod does.
    for node in ("node-1", "node-2"):
        while not await takes_a_pod(cluster, node):
            assert time.monotonic() < deadline, f"the agent of {node} has not registered"


async def takes_a_pod(cluster: Cluster, node: str) -> bool:
    """Whether a kubelet gives a pod, which no scheduler has seen, what it asks for."""
    await cluster.create_pod("probe", memory=1, node=None, nodeName=node)
    pod = await cluster.until("probe", lambda pod: pod["status"]["phase"] in ("Running", "Failed"))
    await cluster.delete_pods()
    return pod["status"]["phase"] == "Running"


async def test_without_steering_the_ledger_follows_the_kubelets_own_choice(unsteered):
    given = {}
    for number in range(12):
        name = f"unsteered-{number}"
        await unsteered.create_pod(name, memory=1, node="node-1")
        given[name] = cards_of((await unsteered.running(name))["main"])
    # Binpack would have put all of them on one card.
    assert len(set.union(*given.values())) > 1
    for name, cards in given.items():
        await unsteered.until(name, lambda pod, cards=cards: assigned_cards(pod) == cards)
    await unsteered.told("AssignmentCorrected", *given)
    deadline = time.monotonic() + 30
    while (ledger := by_pod(unsteered.sandbox.inspect())) != given:
        assert time.monotonic() < deadline, (ledger, given)
        await asyncio.sleep(0.2)


def assigned_cards(pod: dict) -> set[str]:
    containers = json.loads(pod["metadata"]["annotations"][ASSIGNMENT_ANNOTATION])["containers"]
    return {share["card"] for shares in containers.values() for share in shares}


def by_pod(inspection: dict) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in inspection["nodes"]:
        for card in node["cards"]:
            for share in card["shares"]:
                found.setdefault(share["pod"], set()).add(card["id"])
    return found


@asynccontextmanager
async def without_agents(cluster: Cluster):
    """The cluster while no node agent runs."""

    async def select(nowhere: str | None, accept) -> None:
        await cluster.api.patch(AGENTS, {"spec": {"template": {"spec": {"nodeSelector": {"example.com/no": nowhere}}}}})
        deadline = time.monotonic() + 60
        while True:
            agents = await cluster.get(AGENTS)
            status = agents["status"]
            if status["observedGeneration"] == agents["metadata"]["generation"] and accept(status):
                return
            assert time.monotonic() < deadline, status
            await asyncio.sleep(0.2)

    await select("true", lambda status: status["currentNumberScheduled"] == status["numberMisscheduled"] == 0)
    try:
        yield
    finally:
        await select(None, lambda status: status["numberReady"] == status["desiredNumberScheduled"] > 0)


async def test_an_audit_finds_nothing_where_all_sides_agree_and_tells_what_does_not(cluster):
    await cluster.create_pod("sound", memory=2, node="node-1")
    held = cards_of((await cluster.running("sound"))["main"])
    url = cluster.sandbox.facts.extender_url
    sound = cluster.sandbox.command("audit", "--extender", url, "-o", "json")
    assert json.loads(sound.stdout)["findings"] == []
    other = next(card for card in ("sim-node-1-7", "sim-node-1-6") if card not in held)
    lost = json.dumps({"version": 1, "containers": {"main": [{"card": other, "memory_bytes": 2 * 2**30}]}})
    async with without_agents(cluster):
        await annotate(cluster.api, "sound", **{ASSIGNMENT_ANNOTATION: lost})
        wrong = cluster.sandbox.command("audit", "--extender", url, "-o", "json", check=False)
        assert {(found["pod"], found["kind"]) for found in json.loads(wrong.stdout)["findings"]} == {
            ("default/sound", "kubelet_differs")
        }
    # What a human wrote wrong, the agent puts right within its next look.
    again = cluster.sandbox.command("audit", "node-1", "--extender", url, "--wait", "40")
    assert "Nothing differs." in again.stdout
    assert assigned_cards(await cluster.get(f"{PODS}/sound")) == held
