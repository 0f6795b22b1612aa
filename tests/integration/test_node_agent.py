"""The node agent against a real API server: what it may write, and that it believes its kubelet."""

from __future__ import annotations

import base64
import hashlib
import json
import ssl
from contextlib import asynccontextmanager

import msgspec
import pytest
from conftest import PODS, Cluster
from impersonation import acting_as_agent, find_refusal
from ruamel.yaml import YAML
from support.waiting import until
from test_pods import cards_of

from accelkit.errors import ApiError
from accelkit.install import shared_nodes as sharing
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import Connection
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, INVENTORY_ANNOTATION
from accelkit.sandbox.fake_host.host import FakeHost

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

GIB = 2**30
AGENTS = "/apis/apps/v1/namespaces/accelkit/daemonsets/accelkit-node-agent"
ACCOUNT = "/api/v1/namespaces/accelkit/serviceaccounts/accelkit-node-agent/token"


async def find_agent(cluster: Cluster, node: str) -> dict:
    """The metadata of the pod of a node's agent."""
    pods = (await cluster.get("/api/v1/namespaces/accelkit/pods"))["items"]
    (pod,) = [
        p["metadata"] for p in pods if p["spec"].get("nodeName") == node and "node-agent" in p["metadata"]["name"]
    ]
    return pod


@asynccontextmanager
async def agent_of(cluster: Cluster, node: str):
    """The API server as the node agent of a node sees it: a client with the token of that agent's pod."""
    pod = await find_agent(cluster, node)
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


async def test_agent_annotates_only_pods_of_own_node(cluster):
    await cluster.create_pod("own", memory=2, node="node-1")
    await cluster.create_pod("other", memory=2, node="node-2")
    await cluster.running("own")
    await cluster.running("other")
    own = (await cluster.get(f"{PODS}/own"))["metadata"]["annotations"][ASSIGNMENT_ANNOTATION]
    async with agent_of(cluster, "node-1") as agent:
        await annotate(agent, "own", **{ASSIGNMENT_ANNOTATION: own})
        with pytest.raises(ApiError, match="change only pods of its own node"):
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
async def test_agent_changes_no_other_field_of_pod(cluster, change):
    await cluster.create_pod("own", memory=2, node="node-1")
    await cluster.running("own")
    async with agent_of(cluster, "node-1") as agent:
        with pytest.raises(ApiError, match=r"the node agent (must not change|may change only these)") as refused:
            await agent.patch(f"{PODS}/own", change)
    assert refused.value.status == 422


async def test_agent_changes_no_other_node_and_no_node_spec(cluster):
    async with agent_of(cluster, "node-1") as agent:
        await agent.patch("/api/v1/nodes/node-1", {"metadata": {"annotations": {"accelkit.io/test": None}}})
        with pytest.raises(ApiError, match="change only nodes of its own node"):
            await agent.patch("/api/v1/nodes/node-2", {"metadata": {"labels": {"x": "y"}}})
        for spec in ({"unschedulable": True}, {"taints": [{"key": "a", "effect": "NoSchedule"}]}):
            with pytest.raises(ApiError, match="the node agent must not change spec"):
                await agent.patch("/api/v1/nodes/node-1", {"spec": spec})
        with pytest.raises(ApiError, match="change only configmaps of its own node"):
            await agent.post("/api/v1/namespaces/accelkit/configmaps", {"metadata": {"name": "node-2"}})


async def test_pod_bound_without_scheduler_gets_assignment_of_its_cards(cluster):
    await cluster.create_bound_pod("past", "node-1", memory=3)
    given = await cluster.running("past")
    pod = await cluster.until("past", lambda pod: ASSIGNMENT_ANNOTATION in pod["metadata"]["annotations"])
    assigned = json.loads(pod["metadata"]["annotations"][ASSIGNMENT_ANNOTATION])["containers"]["main"]
    assert {share["card"] for share in assigned} == cards_of(given["main"])
    assert sum(share["memory_bytes"] for share in assigned) == 3 * 2**30
    await cluster.told("AssignmentRecorded", "past")


async def test_init_container_of_pod_bound_without_scheduler_gets_assignment(cluster):
    await cluster.create_bound_pod(
        "past", "node-1", init={"prepare": {"accelkit.io/memory": 3}}, containers={"main": {}}
    )
    given = await cluster.running("past")
    pod = await cluster.until("past", lambda pod: ASSIGNMENT_ANNOTATION in pod["metadata"]["annotations"])
    containers = json.loads(pod["metadata"]["annotations"][ASSIGNMENT_ANNOTATION])["containers"]
    assert {share["card"] for share in containers["prepare"]} == cards_of(given["prepare"])
    assert sum(share["memory_bytes"] for share in containers["prepare"]) == 3 * 2**30


@asynccontextmanager
async def guarded(cluster: Cluster, name: str):
    """A policy of somebody else by which no agent may change the pod of this name."""
    folder = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
    agents = f"object.metadata.name == '{name}' && request.userInfo.username.contains('node-agent')"
    refusal = {"expression": f"!({agents} || object.metadata.name == 'probe')", "message": "not for agents"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [refusal]}
    await cluster.api.post(f"{folder}ies", {"metadata": {"name": "guard"}, "spec": spec})
    binding = {"metadata": {"name": "guard"}, "spec": {"policyName": "guard", "validationActions": ["Deny"]}}
    await cluster.api.post(f"{folder}ybindings", binding)
    try:
        await cluster.create_pod("probe", memory=1, node=None, schedulerName="another")
        # A policy works a while after it was made.
        await until(
            lambda: find_refusal(annotate(cluster.api, "probe", probe="x")),
            accept=lambda refusal: "not for agents" in refusal,
            every=0.1,
        )
        yield
    finally:
        await cluster.api.delete(f"{folder}ybindings/guard")
        await cluster.api.delete(f"{folder}ies/guard")


async def test_pod_that_agent_cannot_write_does_not_block_other_pods(cluster):
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
    async with guarded(cluster, "guarded"):
        # Bound as another scheduler would; the agent writes them in the order of their UIDs.
        for name in ("one", "guarded", "two"):
            await cluster.create_pod(name, memory=2, node=None, schedulerName="another")
            await cluster.api.post(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
        for name in ("one", "guarded", "two"):
            await cluster.running(name)
        for name in ("one", "two"):
            await cluster.until(name, lambda pod: ASSIGNMENT_ANNOTATION in pod["metadata"]["annotations"])
        await cluster.told("AssignmentNotCorrected", "guarded")
        left = (await cluster.get(f"{PODS}/guarded"))["metadata"]["annotations"]
        assert ASSIGNMENT_ANNOTATION not in left
    # Tried again by itself.
    await cluster.until("guarded", lambda pod: ASSIGNMENT_ANNOTATION in pod["metadata"]["annotations"], seconds=90)


async def test_agent_publishes_allocations_of_kubelet(cluster):
    await cluster.create_pod("shown", memory=2, node="node-1")
    card = next(iter(cards_of((await cluster.running("shown"))["main"])))

    async def list_shown():
        written = await cluster.get("/api/v1/namespaces/accelkit/configmaps/node-1")
        return [pod for pod in json.loads(written["data"]["allocations.json"])["pods"] if pod["name"] == "shown"]

    (pod,) = await until(list_shown, every=0.2)
    assert pod == {"namespace": "default", "name": "shown", "containers": {"main": {"memory": {card: 2}}}}


async def test_installed_agent_reads_sysfs_cards_and_administrator_file(cluster):
    host = FakeHost(cluster.sandbox.paths.nodes / "node-1")
    # This host has just got its machine id, and cards are named by it.
    await restart_agent(cluster)
    host.add("enflame", 1, "S60")
    try:
        machine = hashlib.sha256(host.machine_id.encode()).hexdigest()[:8]
        await cards_become(cluster, [(f"{machine}-{host.cards[0].bdf}-c035", 48 * 2**30)])
        # What verify.yml warns of.
        offered = await sharing.share(cluster.api, nodes=["node-1"], wait_seconds=60)
        (problem,) = offered.library_problems["node-1"]
        assert problem.startswith("library libefml.so of enflame is missing: ")
        host.write("etc/accelkit/cards.yaml", 'cards: {"1e36:c035": {memory: 20GiB}}')
        await cards_become(cluster, [(f"{machine}-{host.cards[0].bdf}-c035", 20 * 2**30)])
    finally:
        (host.root / "etc/accelkit/cards.yaml").unlink(missing_ok=True)
        host.remove(host.cards[0].bdf)
    # A card that went stays, unhealthy, as long as its agent: that nobody holds any of it is known to the next one.
    await restart_agent(cluster)
    await cards_become(cluster, [])
    await kubelets_know_agents(cluster)


async def restart_agent(cluster: Cluster) -> None:
    """End the agent of the first node; its DaemonSet starts another one."""
    pod = await find_agent(cluster, "node-1")
    await cluster.api.delete(f"/api/v1/namespaces/accelkit/pods/{pod['name']}")


async def enflame_cards(cluster: Cluster) -> list[dict]:
    node = await cluster.get("/api/v1/nodes/node-1")
    cards = json.loads(node["metadata"]["annotations"][INVENTORY_ANNOTATION])["cards"]
    return [card for card in cards if card["vendor"] == "enflame"]


async def cards_become(cluster: Cluster, wanted: list[tuple[str, int]]) -> None:
    """Wait until the node shows Enflame cards with these names and amounts."""

    def are_wanted(found: list[dict]) -> bool:
        return [(card["id"], card["memory_bytes"]) for card in found] == wanted

    await until(lambda: enflame_cards(cluster), accept=are_wanted, every=0.5)


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

    def all_run(agents: dict) -> bool:
        status = agents["status"]
        seen = status.get("observedGeneration", 0) >= changed["metadata"]["generation"]
        counts = {status.get(each) for each in ("updatedNumberScheduled", "numberReady", "desiredNumberScheduled")}
        return seen and len(counts) == 1

    await until(lambda: cluster.get(AGENTS), accept=all_run, every=0.2)
    await kubelets_know_agents(cluster)


async def kubelets_know_agents(cluster: Cluster) -> None:
    """Wait for the kubelets: an agent runs before its kubelet knows it; a kubelet that takes a pod does."""
    for node in ("node-1", "node-2"):
        await until(lambda node=node: takes_a_pod(cluster, node))


async def takes_a_pod(cluster: Cluster, node: str) -> bool:
    """Whether a kubelet gives a pod, which no scheduler has seen, what it asks for."""
    await cluster.create_bound_pod("probe", node, memory=1)
    pod = await cluster.until("probe", lambda pod: pod["status"]["phase"] in ("Running", "Failed"))
    await cluster.delete_pods()
    return pod["status"]["phase"] == "Running"


async def test_ledger_follows_kubelet_choice_without_steering(unsteered):
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
    await until(lambda: by_pod(unsteered.sandbox.inspect()), accept=given.__eq__, every=0.2)


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

        def is_observed(agents: dict) -> bool:
            status = agents["status"]
            return status["observedGeneration"] == agents["metadata"]["generation"] and accept(status)

        await until(lambda: cluster.get(AGENTS), accept=is_observed, every=0.2)

    await select("true", lambda status: status["currentNumberScheduled"] == status["numberMisscheduled"] == 0)
    try:
        yield
    finally:
        await select(None, lambda status: status["numberReady"] == status["desiredNumberScheduled"] > 0)
        for node in ("node-1", "node-2"):
            # Since no agent was there, the kubelet has said 0 until it knows the new one.
            await until(
                lambda node=node: cluster.get(f"/api/v1/nodes/{node}"),
                accept=lambda found: found["status"]["allocatable"]["accelkit.io/memory"] != "0",
                every=0.2,
            )


async def test_audit_reports_wrong_assignment_until_agent_corrects_annotation(cluster):
    await cluster.create_pod("sound", memory=2, node="node-1")
    held = cards_of((await cluster.running("sound"))["main"])
    url = cluster.sandbox.facts.extender_url
    sound = cluster.sandbox.command("audit", "--extender", url, "-o", "json")
    assert json.loads(sound.stdout)["findings"] == []
    other = next(card for card in ("sim-node-1-7", "sim-node-1-6") if card not in held)
    lost = json.dumps({"version": 1, "containers": {"main": [{"card": other, "memory_bytes": 2 * 2**30}]}})
    async with without_agents(cluster):
        async with acting_as_agent(cluster.sandbox.kubeconfig, "node-1") as agent:
            await annotate(agent, "sound", **{ASSIGNMENT_ANNOTATION: lost})
        wrong = cluster.sandbox.command("audit", "--extender", url, "-o", "json", check=False)
        assert {(found["pod"], found["kind"]) for found in json.loads(wrong.stdout)["findings"]} == {
            ("default/sound", "kubelet_differs")
        }
    # What was written wrong, the agent puts right within its next look.
    again = cluster.sandbox.command("audit", "node-1", "--extender", url, "--wait", "40")
    assert "No differences." in again.stdout
    assert assigned_cards(await cluster.get(f"{PODS}/sound")) == held


async def test_forged_assignment_is_reported_corrected_and_not_counted(cluster):
    await cluster.create_pod("forger", memory=1, node="node-1")
    (held,) = cards_of((await cluster.running("forger"))["main"])
    true = (await cluster.get(f"{PODS}/forger"))["metadata"]["annotations"][ASSIGNMENT_ANNOTATION]
    ghosts = [{"card": card, "memory_bytes": 16 * GIB} for card in ("sim-node-1-6", "sim-node-1-7")]
    containers = {"main": [{"card": held, "memory_bytes": 16 * GIB, "compute": 1000}], "ghost": ghosts}
    url = cluster.sandbox.facts.extender_url
    # Written with an agent's rights: from Kubernetes 1.30 on a policy keeps users from it.
    async with without_agents(cluster), acting_as_agent(cluster.sandbox.kubeconfig, "node-1") as agent:
        forged = json.dumps({"version": 1, "containers": containers})
        await annotate(agent, "forger", **{ASSIGNMENT_ANNOTATION: forged})
        told = cluster.sandbox.command("audit", "--extender", url, "--wait", "3", "-o", "json", check=False)
        findings = {found["kind"]: found["message"] for found in json.loads(told.stdout)["findings"]}
        assert "container ghost, which requests none" in findings["disbelieved_assignment"]
        assert held_bytes(cluster.sandbox.inspect()) == {held: GIB}
        # A card that the node does not have: all of them are charged until the agent has looked.
        lost = json.dumps({"version": 1, "containers": {"main": [{"card": "none", "memory_bytes": GIB}]}})
        await annotate(agent, "forger", **{ASSIGNMENT_ANNOTATION: lost})
        await until(lambda: any(node["unassigned"] for node in cluster.sandbox.inspect()["nodes"]), every=0.2)
    await cluster.told("AssignmentCorrected", "forger")
    pod = await cluster.until("forger", lambda pod: assigned_cards(pod) == {held})
    assert json.loads(pod["metadata"]["annotations"][ASSIGNMENT_ANNOTATION]) == json.loads(true)
    again = cluster.sandbox.command("audit", "node-1", "--extender", url, "--wait", "40")
    assert "No differences." in again.stdout
    assert held_bytes(cluster.sandbox.inspect()) == {held: GIB}


def held_bytes(inspection: dict) -> dict[str, int]:
    """What the ledger counts, by card."""
    cards = [card for node in inspection["nodes"] for card in node["cards"]]
    return {card["id"]: card["used_bytes"] for card in cards if card["used_bytes"]}
