"""The extender while the API server is away, loses its answers, or cuts its watches."""

from __future__ import annotations

import asyncio
import itertools
import json
import time

import pytest
from extender_process import (
    ASSIGNMENT,
    GIB,
    assignment,
    create_known_node,
    stages,
    used_by_card,
    wait_until_seen,
)
from proxy import Fault, build_refusal
from support.waiting import until

pytest_plugins = ["extender_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


def bindings(fault: Fault, *, times: int = 1):
    """Let so many Bindings meet a fault."""
    left = itertools.count(times, -1)

    def decide(line: str) -> Fault:
        return fault if "/binding?" in line and next(left) > 0 else Fault.PASS

    return decide


async def test_extender_recovers_after_api_server_outage(extender, world, proxy):
    node = await create_known_node(extender, world, 2, 80)
    kept, gone, later = await world.pods(3, 24)
    assert [await extender.bind(pod, node) for pod in (kept, gone)] == ["", ""]
    proxy.close()
    # At once, before anybody has noticed, and then while it is known.
    first = await extender.bind(later, node)
    assert "received no response" in first

    async def red() -> str:
        status, text = await extender.readiness()
        return text if status == 503 else ""

    assert "the API server has been unreachable for" in await until(red)
    assert "the API server has been unreachable for" in await extender.bind(later, node)
    assert "the API server has been unreachable for" in (await extender.filter(later, node))["Error"]
    status, _ = await extender.ask("GET", "/healthz")
    assert status == 200
    assert used_by_card(await extender.node(node))[f"{node}-0"] >= 48
    await world.delete(gone)
    await world.bind_past(await world.pod(40), node, assignment(f"{node}-1", 40))
    await proxy.start()
    await extender.ready()
    view = await extender.shows(node, lambda view: used_by_card(view) == {f"{node}-0": 24, f"{node}-1": 40})
    assert used_by_card(view) == await world.charged(node)
    assert await extender.bind(later, node) == ""


async def test_lost_binding_response_keeps_share(extender, world, proxy):
    node = await create_known_node(extender, world, 1, 24)
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


async def test_unconfirmed_binding_keeps_share_until_watch_confirms(extender, world, proxy):
    node, other = await create_known_node(extender, world, 1, 24), await create_known_node(extender, world, 1, 24)
    first, second = await world.pods(2, 24)
    await wait_until_seen(extender, world)
    name = first["metadata"]["name"]
    silent = True

    def decide(line: str) -> Fault:
        if "/binding?" in line and name in line:
            return Fault.LOSE_ANSWER if silent else Fault.PASS
        # Neither the question nor a watch gets through.
        return Fault.LOSE_REQUEST if silent and line.startswith("GET") else Fault.PASS

    proxy.decide = decide
    proxy.cut()
    assert "received no response" in await extender.bind(first, node)
    assert (await world.read(first))["spec"]["nodeName"] == node
    assert stages(await extender.node(node)) == ["reserved"]
    assert await extender.bind(second, node) != ""
    assert await extender.bind(first, other) != ""
    # A repetition that is refused says nothing of the Binding before it.
    for status, reason in ((429, "TooManyRequests"), (409, "Conflict"), (403, "Forbidden")):
        proxy.instead = {f"/{name}/binding?": build_refusal(status, reason)}
        # On a slow machine the extender has found out by now that nothing is heard.
        error = await extender.bind(first, node)
        assert reason in error or "has been unreachable" in error
        assert stages(await extender.node(node)) == ["reserved"]
    proxy.instead = {}
    silent = False
    await extender.ready()
    await extender.shows(node, lambda view: stages(view) == ["confirmed"])
    assert await extender.bind(first, node) == ""
    assert f"is already bound to node {node}" in await extender.bind(first, other)
    assert used_by_card(await extender.node(node)) == {f"{node}-0": 24}
    assert await extender.bind(second, node) == "insufficient accelkit.io/memory in one card"
    assert await extender.bind(second, other) == ""


async def test_lost_binding_request_is_retried_or_released(extender, world, proxy):
    *nodes, spare = [await create_known_node(extender, world, 1, 24) for _ in range(4)]
    repeated, left, refused = await world.pods(3, 24)
    names = [pod["metadata"]["name"] for pod in (repeated, left, refused)]
    lost = set(names)

    def decide(line: str) -> Fault:
        name = next((name for name in lost if f"/{name}" in line), "")
        if not name:
            return Fault.PASS
        if name == names[2]:
            return Fault.LOSE_REQUEST if line.startswith("GET") else Fault.PASS
        return Fault.LOSE_REQUEST if "/binding?" in line else Fault.PASS

    await wait_until_seen(extender, world)
    # The third is refused as one that another pod's UID would be, and then nobody can be asked.
    proxy.instead = {f"/{names[2]}/binding?": build_refusal(409, "Conflict")}
    proxy.decide = decide
    started = time.monotonic()
    errors = [await extender.bind(pod, node) for pod, node in zip((repeated, left, refused), nodes, strict=True)]
    assert all(errors)
    assert all([await extender.used(node) == 24 for node in nodes])
    # The scheduler that tries again is sent where the share is kept.
    again = await extender.filter(repeated, nodes[1], nodes[0], spare)
    assert again["NodeNames"] == [nodes[0]]
    words = f"pod is reserved on node {nodes[0]} until the result of its Binding is known"
    assert again["FailedNodes"] == {nodes[1]: words, spare: words}
    lost.remove(names[0])
    assert await extender.bind(repeated, nodes[0]) == ""
    assert (await world.read(repeated))["spec"]["nodeName"] == nodes[0]
    other = await world.pod(24)
    assert await extender.bind(other, nodes[1]) == "insufficient accelkit.io/memory in one card"
    lost.clear()
    for node in nodes[1:]:
        await extender.shows(node, lambda view: not stages(view))
    assert time.monotonic() - started > 9
    assert await extender.bind(other, nodes[1]) == ""
    assert await extender.used(nodes[0]) == 24


async def test_lost_response_with_concurrent_retries_binds_once(extender, world, proxy):
    node = await create_known_node(extender, world, 1, 24)
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
