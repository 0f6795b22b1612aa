"""Bad input over real HTTP: every answer is a clear error, and the ledger stays as it was."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest
from extender_process import MEMORY, Process, client_of, used_by_card, world_of

from accelkit.serving.server import MAX_BODY_BYTES

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

UID = "11111111-2222-3333-4444-555555555555"


@pytest.fixture(scope="module")
def process(control_plane, tmp_path_factory):
    with Process(tmp_path_factory.mktemp("logs"), "--kubeconfig", str(control_plane.kubeconfig)) as process:
        yield process


@pytest.fixture
async def world(control_plane):
    async with world_of(control_plane.kubeconfig) as world:
        yield world


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


MALFORMED = [
    b"",
    b"{",
    b"null",
    b"[]",
    b'"text"',
    b"\xff\xfe",
    b"{}",
    b'{"Pod": null, "NodeNames": ["a"]}',
    b"[" * 100_000,
]


@pytest.mark.parametrize("body", [*MALFORMED, b'{"Pod": {"metadata": {"uid": 5}}}'], ids=lambda body: repr(body[:20]))
async def test_malformed_filter(extender, body):
    answer = await extender.post("/filter", body)
    assert answer.keys() == {"Error"}
    assert answer["Error"].startswith("accelkit cannot use the arguments of filter: ")


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: repr(body[:20]))
async def test_malformed_prioritize(extender, body):
    status, answer = await extender.ask("POST", "/prioritize", body)
    assert status == 400
    assert json.loads(answer)["error"].startswith("accelkit cannot use the arguments of prioritize: ")


@pytest.mark.parametrize("body", [*MALFORMED, b'{"PodName": 1}'], ids=lambda body: repr(body[:20]))
async def test_malformed_bind(extender, body):
    assert (await extender.post("/bind", body))["Error"].startswith("accelkit cannot use the arguments of bind: ")


@pytest.mark.parametrize("missing", ["PodName", "PodNamespace", "PodUID", "Node"])
async def test_bind_with_an_empty_or_missing_field(extender, world, missing):
    meta = (await world.pod(1))["metadata"]
    names = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": extender.full}
    assert await extender.post("/bind", {**names, missing: ""}) == {"Error": f"{missing} is missing"}
    without = {key: value for key, value in names.items() if key != missing}
    assert missing in (await extender.post("/bind", without))["Error"]


@pytest.mark.parametrize("field", ["PodName", "PodNamespace"])
@pytest.mark.parametrize("name", ["..", "../../secrets", "a/b", "a?dryRun=All", "a#b", "a%2fb", "ä", "a\nb", "x" * 300])
async def test_bind_of_names_that_cannot_be(extender, field, name):
    names = {"PodName": "p", "PodNamespace": "default", "PodUID": UID, "Node": extender.full, field: name}
    error = (await extender.post("/bind", names))["Error"]
    assert error.startswith(f"{field} ")
    assert "is no name" in error


@pytest.mark.parametrize("node", ["no-such-node", "../x", "Ä node", "x" * 5000])
async def test_bind_to_a_node_that_is_not_there(extender, world, node):
    pod = await world.pod(1)
    assert await extender.bind(pod, node)
    assert not (await world.read(pod))["spec"].get("nodeName")
    assert (await extender.node("no-such-node")) == {}


async def test_filter_names_the_nodes_it_was_asked_about(extender, world):
    # As many unknown names as the ledger has nodes that fail, sooner or later: the counts agree, the names do not.
    asked = ["no-such-node"]
    for _ in range(96):
        answer = await extender.filter(pod(**{MEMORY: "1024"}), *asked)
        assert answer["NodeNames"] == []
        assert answer["FailedNodes"] == dict.fromkeys(asked, "node is not known to accelkit")
        asked.append(f"no-such-node-{len(asked)}")


async def test_filter_tells_unknown_nodes_from_full_ones(extender):
    answer = await extender.filter(pod(**{MEMORY: "1"}), extender.full, "no-such-node", "Ä ../x", "")
    assert answer["NodeNames"] == []
    unknown = dict.fromkeys(("no-such-node", "Ä ../x", ""), "node is not known to accelkit")
    assert answer["FailedNodes"] == {extender.full: "insufficient accelkit.io/memory in one card", **unknown}
    assert extender.full not in answer.get("FailedAndUnresolvableNodes", {})


async def test_filter_of_a_pod_without_uid(extender):
    body = pod(**{MEMORY: "1"})
    del body["metadata"]["uid"]
    assert (await extender.filter(body, extender.full)) == {
        "Error": "accelkit cannot use the arguments of filter: Pod.metadata.uid is missing"
    }


async def test_filter_without_nodes(extender):
    answer = await extender.post("/filter", {"Pod": pod(**{MEMORY: "1"})})
    assert answer == {"Error": "accelkit cannot use the arguments of filter: both Nodes and NodeNames are missing"}


async def test_whole_nodes_come_back_as_they_came(extender, world):
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
    for items in ([5], [{}], [{"metadata": {"name": 5}}]):
        answer = await extender.post("/filter", {"Pod": pod(**{MEMORY: "24"}), "Nodes": {"items": items}})
        assert answer["Error"].startswith("accelkit cannot use the arguments of filter: Nodes.items: ")


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ("-1", "is negative"),
        (-1, "is negative"),
        ("1.5", "is not a whole number"),
        (0.5, "is not a whole number"),
        (1e300, "out of range"),
        ("9223372036854775807", "absurd"),
        ("9223372036854775808", "out of range"),
        ("1e999", "out of range"),
        ("8Ei", "out of range"),
        ("eight", "is not a Kubernetes quantity"),
        ("", "is not a Kubernetes quantity"),
        ("٣", "is not a Kubernetes quantity"),
    ],
)
async def test_amounts_that_cannot_be(extender, amount, words):
    answer = await extender.filter(pod(**{MEMORY: amount}), extender.full)
    assert answer["NodeNames"] == []
    assert words in answer["FailedNodes"][extender.full]
    assert answer["FailedAndUnresolvableNodes"] == answer["FailedNodes"]


@pytest.mark.parametrize("number", [b"1e400", b"-0", b"1" * 400, b"NaN", b"true", b"[]"])
async def test_numbers_that_json_cannot_hold(extender, number):
    body = json.dumps({"Pod": pod(**{MEMORY: "@"}), "NodeNames": [extender.full]}).encode().replace(b'"@"', number)
    answer = await extender.post("/filter", body)
    assert answer.get("Error") or answer["NodeNames"] == [] or number == b"-0"


async def test_absurd_request_of_a_real_pod_is_not_bound(extender, world):
    free = await world.node(1, 24)
    await extender.shows(free, lambda view: view["state"] == "shared")
    absurd = await world.pod(2**62)
    assert "absurd" in await extender.bind(absurd, free)
    odd = await world.pod(8, annotations={"accelkit.io/request": json.dumps({"main": {"split": 3}})})
    assert "do not divide over 3 cards" in await extender.bind(odd, free)
    unreadable = await world.pod(8, annotations={"accelkit.io/request": "{"})
    assert "accelkit.io/request cannot be read" in await extender.bind(unreadable, free)
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
async def test_paths_and_methods(extender, method, path, status):
    answered, answer = await extender.ask(method, path)
    assert answered == status
    assert status == 200 or json.loads(answer).keys() == {"error"}


async def raw(extender, text: bytes) -> bytes:
    """Send bytes as they are; return what comes back until the first pause."""
    reader, writer = await asyncio.open_connection("127.0.0.1", extender.process.port)
    try:
        writer.write(text)
        await writer.drain()
        async with asyncio.timeout(60):
            return await reader.read(4096)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_body_over_the_limit_is_refused_before_it_is_sent(extender):
    head = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1)
    answer = await raw(extender, head)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"the body is larger than" in answer


@pytest.mark.parametrize("head", [b"nonsense\r\n\r\n", b"POST /filter HTTP/1.1\r\nContent-Length: -5\r\n\r\n"])
async def test_what_is_no_http_does_not_disturb(extender, head):
    answer = await raw(extender, head)
    assert answer == b"" or answer.startswith(b"HTTP/1.0 400 ")
    assert (await extender.readiness())[0] == 200


async def test_caller_that_hangs_up_amid_its_body(extender):
    _, writer = await asyncio.open_connection("127.0.0.1", extender.process.port)
    writer.write(b"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await extender.readiness())[0] == 200


async def test_bodies_in_chunks(extender):
    async def chunks():
        yield b'{"Pod": {"metadata": {"name": "p", "uid": "u"}}, "No'
        yield b'deNames": ["a"]}'

    async with asyncio.timeout(30):
        async with extender.session.post(extender.process.url + "/filter", data=chunks()) as response:
            assert await response.json() == {"NodeNames": ["a"]}
