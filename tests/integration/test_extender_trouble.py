"""The extender while the API server is away, loses its answers, or cuts its watches."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import subprocess
import sys
import time

import pytest
from extender_process import (
    ASSIGNMENT,
    GIB,
    Process,
    assignment,
    client_of,
    inventory,
    until,
    used_by_card,
    world_of,
)
from proxy import Fault, Proxy

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


@pytest.fixture
async def world(control_plane):
    async with world_of(control_plane.kubeconfig) as world:
        yield world


@pytest.fixture
async def proxy(control_plane, tmp_path):
    async with Proxy(control_plane.kubeconfig, tmp_path) as proxy:
        yield proxy


@pytest.fixture
async def extender(proxy, tmp_path):
    with Process(tmp_path, "--kubeconfig", str(proxy.kubeconfig)) as process:
        async with client_of(process) as client:
            yield client
        assert "Traceback" not in process.log.read_text()


def bindings(fault: Fault, *, times: int = 1):
    """Let so many Bindings meet a fault."""
    left = itertools.count(times, -1)

    def decide(line: str) -> Fault:
        return fault if "/binding?" in line and next(left) > 0 else Fault.PASS

    return decide


async def known(extender, world, *shape: int) -> str:
    node = await world.node(*shape)
    await extender.shows(node, lambda view: view["state"] == "shared")
    return node


def stages(view: dict) -> list[str]:
    return [share["stage"] for card in view["cards"] for share in card["shares"]]


async def test_api_server_away_and_back(extender, world, proxy):
    node = await known(extender, world, 2, 80)
    kept, gone, later = await world.pods(3, 24)
    assert [await extender.bind(pod, node) for pod in (kept, gone)] == ["", ""]
    await proxy.shut()
    # At once, before anybody has noticed, and then while it is known.
    first = await extender.bind(later, node)
    assert "got no answer" in first

    async def red() -> str:
        status, text = await extender.readiness()
        return text if status == 503 else ""

    assert "the API server has been away for" in await until(red, seconds=20)
    assert "the API server has been away for" in await extender.bind(later, node)
    assert "the API server has been away for" in (await extender.filter(later, node))["Error"]
    status, _ = await extender.ask("GET", "/healthz")
    assert status == 200
    assert used_by_card(await extender.node(node))[f"{node}-0"] >= 48
    await world.delete(gone)
    await world.bind_past(await world.pod(40), node, assignment(f"{node}-1", 40))
    await proxy.open()
    await extender.ready()
    view = await extender.shows(node, lambda view: used_by_card(view) == {f"{node}-0": 24, f"{node}-1": 40})
    assert used_by_card(view) == await world.charged(node)
    assert await extender.bind(later, node) == ""


async def test_lost_answer_keeps_the_share_until_it_is_known(extender, world, proxy):
    node = await known(extender, world, 1, 24)
    first, second = await world.pods(2, 24)
    proxy.decide = bindings(Fault.LOSE_ANSWER)
    error = await extender.bind(first, node)
    # The extender asks at once and finds the pod bound.
    assert error == ""
    assert await extender.bind(second, node) == "insufficient accelkit.io/memory in one card"
    assert await extender.bind(first, node) == ""
    read = await world.read(first)
    assert read["spec"]["nodeName"] == node
    shares = json.loads(read["metadata"]["annotations"][ASSIGNMENT])["containers"]["main"]
    assert shares == [{"card": f"{node}-0", "memory_bytes": 24 * GIB}]
    assert used_by_card(await extender.node(node)) == {f"{node}-0": 24}
    assert not (await world.read(second))["spec"].get("nodeName")


async def test_nothing_is_heard_of_an_accepted_binding(extender, world, proxy):
    node, other = await known(extender, world, 1, 24), await known(extender, world, 1, 24)
    first, second = await world.pods(2, 24)
    name = first["metadata"]["name"]
    silent = True

    def decide(line: str) -> Fault:
        if "/binding?" in line and name in line:
            return Fault.LOSE_ANSWER if silent else Fault.PASS
        # Neither the question nor a watch gets through.
        return Fault.LOSE_REQUEST if silent and line.startswith("GET") else Fault.PASS

    proxy.decide = decide
    proxy.cut()
    assert "got no answer" in await extender.bind(first, node)
    assert (await world.read(first))["spec"]["nodeName"] == node
    assert stages(await extender.node(node)) == ["reserved"]
    assert await extender.bind(second, node) != ""
    assert "held on node" in await extender.bind(first, other)
    silent = False
    await extender.ready()
    await extender.shows(node, lambda view: stages(view) == ["confirmed"])
    assert await extender.bind(first, node) == ""
    assert f"is bound to {node} already" in await extender.bind(first, other)
    assert used_by_card(await extender.node(node)) == {f"{node}-0": 24}
    assert await extender.bind(second, node) == "insufficient accelkit.io/memory in one card"
    assert await extender.bind(second, other) == ""


async def test_lost_request_is_settled_or_repeated(extender, world, proxy):
    nodes = [await known(extender, world, 1, 24) for _ in range(3)]
    repeated, left, doomed = await world.pods(3, 24)
    # A pod with a finalizer that is being deleted: the API server refuses its Binding with Conflict.
    finalizers = {"metadata": {"finalizers": ["accelkit.io/test"]}}
    path = f"/api/v1/namespaces/default/pods/{doomed['metadata']['name']}"
    await world.api.patch(path, finalizers)
    await world.delete(doomed)
    names = [pod["metadata"]["name"] for pod in (repeated, left, doomed)]
    lost = set(names)

    def decide(line: str) -> Fault:
        name = next((name for name in lost if f"/{name}" in line), "")
        if not name:
            return Fault.PASS
        if name == doomed["metadata"]["name"]:
            return Fault.LOSE_REQUEST if line.startswith("GET") else Fault.PASS
        return Fault.LOSE_REQUEST if "/binding?" in line else Fault.PASS

    async def shown() -> bool:
        return all([(await extender.node(node))["state"] == "shared" for node in nodes])

    await until(shown)
    proxy.decide = decide
    started = time.monotonic()
    errors = [await extender.bind(pod, node) for pod, node in zip((repeated, left, doomed), nodes, strict=True)]
    assert all(errors)
    if errors[2].startswith("GET"):
        # The extender had not heard of the pod yet, so it reserved nothing.
        nodes.pop()
    assert all([await extender.used(node) == 24 for node in nodes])
    lost.remove(names[0])
    assert await extender.bind(repeated, nodes[0]) == ""
    assert (await world.read(repeated))["spec"]["nodeName"] == nodes[0]
    other = await world.pod(24)
    assert await extender.bind(other, nodes[1]) == "insufficient accelkit.io/memory in one card"
    lost.clear()
    for node in nodes[1:]:
        await extender.shows(node, lambda view: not stages(view), seconds=20)
    assert time.monotonic() - started > 9
    assert await extender.bind(other, nodes[1]) == ""
    assert await extender.used(nodes[0]) == 24
    await world.api.patch(path, {"metadata": {"finalizers": None}})


async def test_refused_repetition_does_not_free_an_undecided_share(extender, world, proxy):
    node = await known(extender, world, 1, 24)
    first, second = await world.pods(2, 24)
    heard = False

    def decide(line: str) -> Fault:
        own = first["metadata"]["name"] in line
        return Fault.LOSE_ANSWER if not heard and own and "/binding?" in line else Fault.PASS

    proxy.decide = decide
    assert await extender.bind(first, node) == ""
    heard = True
    errors = await asyncio.gather(*(extender.bind(pod, node) for pod in (first, second) * 4))
    assert errors == ["", "insufficient accelkit.io/memory in one card"] * 4
    assert await world.charged(node) == {f"{node}-0": 24}


async def test_watches_cut_during_a_storm(extender, world, proxy):
    nodes = [await known(extender, world, 4, 80) for _ in range(3)]
    chance = random.Random(4)  # noqa: S311 - a repeatable mixture
    stop = asyncio.Event()

    async def scissors() -> None:
        while not stop.is_set():
            proxy.cut()
            await asyncio.sleep(0.15)

    async def life() -> None:
        pod = await world.pod(chance.choice((8, 24, 40)))
        for _ in range(5):
            node = chance.choice(nodes)
            if not await extender.bind(pod, node):
                break
        end = chance.choice(("delete", "Succeeded", "stay", "stay"))
        if end == "delete":
            await world.delete(pod)
        elif end == "Succeeded":
            await world.phase(pod, "Succeeded")

    cutting = asyncio.create_task(scissors())
    try:
        for _ in range(6):
            await asyncio.gather(*(life() for _ in range(10)))
        gone = await world.node(1, 80)
        await world.annotate(nodes[0], inventory(nodes[0], 5))
        await world.delete_node(gone)
    finally:
        stop.set()
        await cutting
    await extender.ready()
    charged = await world.charged(*nodes)
    assert charged
    assert max(charged.values()) <= 80

    async def agrees() -> bool:
        views = [await extender.node(node) for node in nodes]
        used = {card: gib for view in views for card, gib in used_by_card(view).items()}
        return used == charged and {stage for view in views for stage in stages(view)} <= {"confirmed"}

    await until(agrees)
    shown = await extender.inspect()
    assert shown == await from_api(proxy)
    assert len(next(view for view in shown["nodes"] if view["name"] == nodes[0])["cards"]) == 5


async def from_api(proxy) -> dict:
    command = [sys.executable, "-m", "accelkit", "inspect", "--from-api", "-o", "json", "--kubeconfig"]
    done = await asyncio.to_thread(
        subprocess.run, [*command, str(proxy.kubeconfig)], capture_output=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


async def test_relist_after_all_that_happened_while_away(extender, world, proxy):
    node, gone = await known(extender, world, 2, 80), await known(extender, world, 1, 80)
    replaced, recreated = await world.pods(2, 24)
    assert [await extender.bind(pod, node) for pod in (replaced, recreated)] == ["", ""]
    await proxy.shut()
    for pod in (replaced, recreated):
        await world.delete(pod)
    again = await world.pod(40, name=recreated["metadata"]["name"])
    await world.bind_past(again, node, assignment(f"{node}-1", 40))
    await world.delete_node(gone)
    await proxy.open()
    await extender.ready()
    await extender.shows(node, lambda view: used_by_card(view) == {f"{node}-1": 40})
    uids = [share["uid"] for card in (await extender.node(node))["cards"] for share in card["shares"]]
    assert uids == [again["metadata"]["uid"]]
    assert await extender.bind(await world.pod(1), gone) == "node is not known to accelkit"


async def test_list_that_is_too_old_is_read_again(control_plane, tmp_path, world):
    node = await world.node(2, 80)
    answer = json.dumps({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}).encode()
    gone = b"HTTP/1.1 410 Gone\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        len(answer),
        answer,
    )
    async with Proxy(control_plane.kubeconfig, tmp_path) as proxy:
        with Process(tmp_path, "--kubeconfig", str(proxy.kubeconfig)) as process:
            async with client_of(process) as extender:
                lists = sum("limit=500" in line for line in proxy.requests)
                proxy.instead = {"watch=1": gone}
                proxy.cut()

                async def listed_again() -> bool:
                    return sum("limit=500" in line for line in proxy.requests) >= lists + 4

                await until(listed_again)
                started, before = time.monotonic(), len(proxy.requests)
                pod = await world.pod(24)
                await world.bind_past(pod, node, assignment(f"{node}-0", 24))
                # Each list shows it, though no watch lives.
                await extender.shows(node, lambda view: used_by_card(view) == {f"{node}-0": 24})
                await until(listed_again)
                rate = (len(proxy.requests) - before) / (time.monotonic() - started + 1)
                assert rate < 40, "lists without pause"
                proxy.instead = {}
                await extender.ready()
