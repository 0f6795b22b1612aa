"""`accelkit explain` and `POST /simulate` against what the real kube-scheduler then does."""

import asyncio
import json
import urllib.request

import msgspec
import pytest
from conftest import PODS
from support.waiting import until

from accelkit.model.keys import CORDON_KEY

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

GIB = 2**30
MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"
NODES = "/api/v1/nodes"


def explain(cluster, name, *arguments):
    """`accelkit explain -o json`."""
    return json.loads(cluster.sandbox.command("explain", name, "-o", "json", *arguments).stdout)


def on(*nodes):
    return [word for node in nodes for word in ("--node", node)]


def simulate(cluster, pod, **question):
    """`POST /simulate`, as a client of the extender."""
    body = json.dumps({"pod": pod, **question}).encode()
    request = urllib.request.Request(f"{cluster.sandbox.facts.extender_url}/simulate", body)  # noqa: S310 - its own URL
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - the same
        return {node["name"]: node for node in json.load(answer)["nodes"]}


async def read_event(cluster, name, *parts):
    """The message of kube-scheduler's event, by which users learn why a pod waits.

    Where it has tried more than once, of the try that told all of this: an earlier one may have counted pods of the
    test before as still there.
    """

    async def find():
        events = (await cluster.get(PODS.replace("pods", "events")))["items"]
        failed = [each for each in events if each["reason"] == "FailedScheduling"]
        messages = [each["message"] for each in failed if each["involvedObject"]["name"] == name]
        return [each for each in messages if all(part in each for part in parts)]

    return (await until(find, every=0.1))[0]


async def read_cards(cluster, name):
    """The shares that bind has written on a pod, by container."""
    pod = await cluster.until(name, lambda pod: pod["spec"].get("nodeName"))
    assignment = json.loads(pod["metadata"]["annotations"]["accelkit.io/assignment"])
    return pod["spec"]["nodeName"], assignment["containers"]


async def annotate_node(cluster, node, **annotations):
    await cluster.api.patch(f"{NODES}/{node}", {"metadata": {"annotations": annotations}})


async def test_explain_has_same_reasons_per_node_as_scheduler_event(cluster):
    asked = {"accelkit.io/request": '{"main": {"model": "sim-32g"}}'}
    await cluster.create_pod("too-large", node=None, memory=40, annotations=asked)
    sentences = {
        "node-1": "no card of model sim-32g",
        "node-2": "insufficient accelkit.io/memory in one card",
    }
    # What kube-scheduler knows itself of a node is never asked of the extender.
    told = [f"1 {sentence}" for sentence in (*sentences.values(), "Insufficient accelkit.io/memory")]
    await read_event(cluster, "too-large", *told)
    condition = await cluster.refused("too-large", *told)
    shown = explain(cluster, "too-large")
    assert shown["state"] == "pending"
    assert shown["scheduler"] == {"scheduler": "default-scheduler", "reason": "Unschedulable", "message": condition}
    assert {node["name"]: node["sentence"] for node in shown["simulation"]["nodes"]} == sentences
    table = cluster.sandbox.command("explain", "too-large").stdout
    answer = "Pod default/too-large is pending: it does not fit on any of the 2 nodes that share cards.\n"
    assert table.startswith(answer)
    change = "8 GiB less memory for container main (32 GiB instead of 40 GiB)"
    assert f"Smallest change: {change}: the pod would get card sim-node-2-2" in table
    assert f"kube-scheduler (Unschedulable): {condition}" in table
    bare = explain(cluster, "too-large", *on("node-3"))["simulation"]["nodes"][0]
    assert (bare["sentence"], bare["changes"][0]["kind"]) == ("node has no accelkit inventory", "node_shared")


async def test_copy_with_suggested_memory_is_bound_to_named_card(cluster):
    await cluster.create_pod("wants-20", memory=20)
    await read_event(cluster, "wants-20", "1 insufficient accelkit.io/memory in one card")
    (change, *_) = explain(cluster, "wants-20", *on("node-1"))["simulation"]["nodes"][0]["changes"]
    assert (change["kind"], change["after"]) == ("less_memory", 16 * GIB)
    await cluster.create_pod("wants-less", memory=change["after"] // GIB)
    node, containers = await read_cards(cluster, "wants-less")
    assert (node, [share["card"] for share in containers["main"]]) == ("node-1", change["taken"])


async def test_pod_is_bound_after_named_pods_end(cluster):
    await cluster.create_pod("holds-half", node="node-2", memory=8)
    await cluster.create_pod("holds-cards", node="node-2", cards=3)
    await asyncio.gather(cluster.running("holds-half"), cluster.running("holds-cards"))
    await cluster.create_pod("wants-card", node="node-2", cards=1)
    await read_event(cluster, "wants-card", "1 insufficient free accelkit.io/cards")
    (change,) = explain(cluster, "wants-card", *on("node-2"))["simulation"]["nodes"][0]["changes"]
    assert [pod["name"] for pod in change["pods"]] == ["holds-half"]
    assert "if pod default/holds-half ended" in cluster.sandbox.command("explain", "wants-card", *on("node-2")).stdout
    pod = await cluster.get(f"{PODS}/wants-card")
    foreseen = simulate(cluster, pod, nodes=["node-2"], without=["default/holds-half"])["node-2"]
    assert foreseen["fits"]
    await cluster.api.delete(f"{PODS}/holds-half", {"gracePeriodSeconds": 0})
    node, containers = await read_cards(cluster, "wants-card")
    assert (node, containers) == ("node-2", msgspec.json.decode(msgspec.json.encode(foreseen["assignment"])))
    assert [share["card"] for share in containers["main"]] == change["taken"]


async def test_copy_with_suggested_number_of_cards_is_bound(cluster):
    await cluster.create_pod("holds-one", memory=1)
    await cluster.running("holds-one")
    await cluster.create_pod("wants-8-cards", cards=8)
    await read_event(cluster, "wants-8-cards", "1 insufficient free accelkit.io/cards")
    (change, *_) = explain(cluster, "wants-8-cards", *on("node-1"))["simulation"]["nodes"][0]["changes"]
    assert (change["kind"], change["before"], change["after"]) == ("fewer_cards", 8, 7)
    await cluster.create_pod("wants-7-cards", cards=change["after"])
    _, containers = await read_cards(cluster, "wants-7-cards")
    assert [share["card"] for share in containers["main"]] == change["taken"]


async def test_copy_without_named_constraint_is_bound(cluster):
    asked = {"main": {"model": "sim-64g", "numa": ""}}
    await cluster.create_pod("wants-model", memory=4, annotations={"accelkit.io/request": json.dumps(asked)})
    sentence = explain(cluster, "wants-model", *on("node-1"))["simulation"]["nodes"][0]["sentence"]
    await read_event(cluster, "wants-model", f"1 {sentence}")
    (change,) = explain(cluster, "wants-model", *on("node-1"))["simulation"]["nodes"][0]["changes"]
    assert (change["kind"], change["constraint"], change["container"]) == ("without_constraint", "model", "main")
    del asked["main"]["model"]
    await cluster.create_pod("wants-any", memory=4, annotations={"accelkit.io/request": json.dumps(asked)})
    _, containers = await read_cards(cluster, "wants-any")
    assert [share["card"] for share in containers["main"]] == change["taken"]


async def test_pod_is_bound_after_named_card_is_uncordoned(cluster):
    await annotate_node(cluster, "node-2", **{CORDON_KEY: "sim-node-2-3"})
    try:
        await cluster.create_pod("wants-4-cards", node="node-2", cards=4)
        node = explain(cluster, "wants-4-cards", *on("node-2"))["simulation"]["nodes"][0]
        await read_event(cluster, "wants-4-cards", f"1 {node['sentence']}")
        assert [card["refusals"][0]["sentence"] for card in node["cards"] if card["refusals"]] == [
            "the card is cordoned"
        ]
        back = next(change for change in node["changes"] if change["kind"] == "card_back")
        assert (back["cards"], back["sentence"]) == (["sim-node-2-3"], "card sim-node-2-3 uncordoned")
    finally:
        await annotate_node(cluster, "node-2", **{CORDON_KEY: None})
    _, containers = await read_cards(cluster, "wants-4-cards")
    assert [share["card"] for share in containers["main"]] == back["taken"]


PODS_ASKED = {
    "share": {"memory": 5},
    "another-share": {"memory": 30},
    "whole": {"cards": 2},
    "split": {"memory": 8, "annotations": {"accelkit.io/request": '{"main": {"split": 2, "policy": "spread"}}'}},
    "several": {"containers": {"a": {MEMORY: 6}, "b": {MEMORY: 12}, "c": {CARDS: 1}}, "init": {"i": {MEMORY: 3}}},
}


async def test_bind_assigns_simulated_cards(cluster):
    for number, (name, asked) in enumerate(PODS_ASKED.items()):
        name = f"foreseen-{name}"  # noqa: PLW2901 - its own
        # Made and deleted, so that it is asked about as the API server has it.
        await cluster.create_pod(f"{name}-copy", node=None, schedulerName="nobody", **asked)
        copy = await cluster.get(f"{PODS}/{name}-copy")
        await cluster.api.delete(f"{PODS}/{name}-copy", {"gracePeriodSeconds": 0})
        foreseen = simulate(cluster, copy)
        # Other pods are there from the second on.
        assert foreseen.keys() == {"node-1", "node-2"}
        await cluster.create_pod(name, node=None, **asked)
        node, containers = await read_cards(cluster, name)
        assert foreseen[node]["fits"], number
        assert foreseen[node]["assignment"] == containers
        await cluster.running(name)


async def test_explain_reports_bound_pod_as_not_pending(cluster):
    await cluster.create_pod("runs", memory=4)
    await cluster.running("runs")
    shown = cluster.sandbox.command("explain", "runs").stdout
    assert shown == (
        "Pod default/runs is not pending: it is bound to node node-1, and it holds 4 GiB of card sim-node-1-0 in "
        "container main.\n"
    )


async def test_explain_of_missing_pod_is_error(cluster):
    done = cluster.sandbox.command("explain", "nobody", "-n", "kube-system", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: pod 'nobody' does not exist in namespace 'kube-system'; set the pod's namespace with -n; "
        "`kubectl get pods -A` lists all pods\n"
    )
