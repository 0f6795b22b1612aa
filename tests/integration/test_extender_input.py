"""Bad input over real HTTP: every answer is a clear error, and the ledger stays as it was."""

from __future__ import annotations

import json

import pytest
from extender_process import MEMORY, client_of, used_by_card

pytest_plugins = ["extender_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

UID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
async def extender(process, world):
    """The extender, which holds one share before the test and exactly that share after it."""
    async with client_of(process) as client:
        client.full = await world.node(1, 24)
        await client.shows(client.full, lambda view: view["state"] == "shared")
        assert await client.bind(await world.pod(24), client.full) == ""
        confirmed = {"confirmed"}
        before = await client.shows(
            client.full, lambda view: {share["stage"] for share in view["cards"][0]["shares"]} == confirmed
        )
        yield client
        assert await client.node(client.full) == before
        assert used_by_card(before) == {f"{client.full}-0": 24}
        assert client.process.process.poll() is None
        assert "Traceback" not in (log := client.process.log.read_text()), log


def pod(**limits: object) -> dict:
    containers = [{"name": "main", "resources": {"limits": limits}}]
    return {"metadata": {"name": "p", "namespace": "default", "uid": UID}, "spec": {"containers": containers}}


@pytest.mark.parametrize("missing", ["PodName", "PodNamespace", "PodUID", "Node"])
async def test_bind_with_empty_or_missing_field_is_rejected(extender, world, missing):
    meta = (await world.pod(1))["metadata"]
    names = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": extender.full}
    assert await extender.post("/bind", {**names, missing: ""}) == {"Error": f"{missing} is missing"}
    without = {key: value for key, value in names.items() if key != missing}
    assert missing in (await extender.post("/bind", without))["Error"]


@pytest.mark.parametrize("field", ["PodName", "PodNamespace"])
@pytest.mark.parametrize("name", ["..", "../../secrets", "a/b", "a?dryRun=All", "a#b", "a%2fb", "ä", "a\nb", "x" * 300])
async def test_bind_with_invalid_name_is_rejected(extender, field, name):
    names = {"PodName": "p", "PodNamespace": "default", "PodUID": UID, "Node": extender.full, field: name}
    error = (await extender.post("/bind", names))["Error"]
    assert error.startswith(f"{field} ")
    assert "is not a valid name" in error


@pytest.mark.parametrize("node", ["no-such-node", "../x", "Ä node", "x" * 5000])
async def test_bind_to_missing_node_fails(extender, world, node):
    pod = await world.pod(1)
    assert await extender.bind(pod, node)
    assert not (await world.read(pod))["spec"].get("nodeName")
    assert (await extender.node("no-such-node")) == {}


async def test_filter_reports_every_unknown_node(extender, world):
    # As many unknown names as the ledger has nodes that fail, sooner or later: the counts agree, the names do not.
    asked = ["no-such-node"]
    for _ in range(96):
        answer = await extender.filter(pod(**{MEMORY: "1024"}), *asked)
        assert answer["NodeNames"] == []
        assert answer["FailedNodes"] == dict.fromkeys(asked, "node is unknown to accelkit")
        asked.append(f"no-such-node-{len(asked)}")


async def test_filter_distinguishes_unknown_nodes_from_full_nodes(extender):
    answer = await extender.filter(pod(**{MEMORY: "1"}), extender.full, "no-such-node", "Ä ../x", "")
    assert answer["NodeNames"] == []
    unknown = dict.fromkeys(("no-such-node", "Ä ../x", ""), "node is unknown to accelkit")
    assert answer["FailedNodes"] == {extender.full: "insufficient accelkit.io/memory in one card", **unknown}
    assert extender.full not in answer.get("FailedAndUnresolvableNodes", {})


async def test_filter_returns_whole_nodes_unchanged(extender, world):
    free = await world.node(1, 24)
    await extender.shows(free, lambda view: view["state"] == "shared")
    nodes = [{"metadata": {"name": name}, "spec": {"x": [1.50, None]}} for name in (extender.full, free)]
    answer = await extender.post("/filter", {"Pod": pod(**{MEMORY: "24"}), "Nodes": {"items": nodes}})
    assert answer["Nodes"]["items"] == nodes[1:]
    # kube-scheduler reads why nodes fail where none is left.
    assert not answer.get("FailedNodes")
    answer = await extender.post("/filter", {"Pod": pod(**{MEMORY: "24"}), "Nodes": {"items": nodes[:1]}})
    assert not answer["Nodes"]["items"]
    assert answer["FailedNodes"].keys() == {extender.full}


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ("-1", "is negative"),
        (-1, "is negative"),
        ("1.5", "is not a whole number"),
        (0.5, "is not a whole number"),
        (1e300, "out of range"),
        ("9223372036854775807", "more memory than any node can have"),
        ("9223372036854775808", "out of range"),
        ("1e999", "out of range"),
        ("8Ei", "out of range"),
        ("eight", "is not a Kubernetes quantity"),
        ("", "is not a Kubernetes quantity"),
        ("٣", "is not a Kubernetes quantity"),
    ],
)
async def test_filter_rejects_invalid_amounts(extender, amount, words):
    answer = await extender.filter(pod(**{MEMORY: amount}), extender.full)
    assert answer["NodeNames"] == []
    assert words in answer["FailedNodes"][extender.full]
    assert answer["FailedAndUnresolvableNodes"] == answer["FailedNodes"]


@pytest.mark.parametrize("number", [b"1e400", b"-0", b"1" * 400, b"NaN", b"true", b"[]"])
async def test_filter_rejects_invalid_json_numbers(extender, number):
    body = json.dumps({"Pod": pod(**{MEMORY: "@"}), "NodeNames": [extender.full]}).encode().replace(b'"@"', number)
    answer = await extender.post("/filter", body)
    assert answer.get("Error") or answer["NodeNames"] == [] or number == b"-0"


async def test_pod_with_impossible_request_is_not_bound(extender, world):
    free = await world.node(1, 24)
    await extender.shows(free, lambda view: view["state"] == "shared")
    absurd = await world.pod(2**62)
    assert "more memory than any node can have" in await extender.bind(absurd, free)
    odd = await world.pod(8, annotations={"accelkit.io/request": json.dumps({"main": {"split": 3}})})
    assert "cannot be split evenly over 3 cards" in await extender.bind(odd, free)
    unreadable = await world.pod(8, annotations={"accelkit.io/request": "{"})
    assert "cannot read accelkit.io/request" in await extender.bind(unreadable, free)
    assert await extender.used(free) == 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/bind", 405),
        ("DELETE", "/filter", 405),
        ("POST", "/inspect", 405),
        ("POST", "/metrics", 405),
        ("POST", "/nothing", 404),
        ("GET", "/nothing", 404),
        ("GET", "/bind/extra", 404),
        ("GET", "//inspect", 404),
        ("GET", "/inspect/no-such-node", 404),
        ("GET", "/inspect/..%2f..%2fetc%2fpasswd", 404),
        ("GET", "/other-scheduler/inspect", 404),
        ("GET", "/gcushare-scheduler/version", 200),
    ],
)
async def test_extender_answers_each_path_and_method_with_expected_status(extender, method, path, status):
    answered, answer = await extender.ask(method, path)
    assert answered == status
    assert status == 200 or json.loads(answer).keys() == {"error"}
