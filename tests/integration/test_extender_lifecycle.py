"""The extender's own life: restarts, ends, pauses, and a large cluster."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys

import pytest
from extender_process import GIB, PODS, Process, assignment, client_of, used_by_card
from fake_api.kubeconfig import write_kubeconfig
from ports import free_port
from support.waiting import until

from accelkit.extender.verbs import MOST_NODES

pytest_plugins = ["extender_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

# After these the kubelet kills a process that has not ended.
GRACE_SECONDS = 30.0


@pytest.fixture
def process(control_plane, tmp_path):
    with Process(tmp_path, "--kubeconfig", str(control_plane.kubeconfig)) as process:
        yield process


@contextlib.asynccontextmanager
async def connected(process):
    reader, writer = await asyncio.open_connection("127.0.0.1", process.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


def settled(view: dict) -> dict:
    """A node's view without what passes: how sure the ledger is."""
    for card in view["cards"]:
        for share in card["shares"]:
            share.pop("stage")
    return view


@pytest.mark.parametrize("way", [signal.SIGKILL, signal.SIGTERM])
async def test_ledger_is_equal_after_restart(process, world, way):
    async with client_of(process) as extender:
        node = await world.node(4, 80)
        await extender.shows(node, lambda view: view["state"] == "shared")
        pods = await world.pods(6, 24)
        assert [await extender.bind(pod, node) for pod in pods] == [""] * 6
        await world.pod(10, node_name=node)
        await world.phase(pods[0], "Succeeded")
        await world.phase(pods[4], "Failed")
        before = await extender.shows(
            node, lambda view: used_by_card(view) == {f"{node}-0": 48, f"{node}-1": 48} and view["unassigned"]
        )
        process.signal(way)
        assert await process.ended() == (0 if way == signal.SIGTERM else -signal.SIGKILL)
    process.start()
    async with client_of(process) as extender:
        assert settled(await extender.node(node)) == settled(before)
        assert await extender.bind(pods[1], node) == ""
        assert used_by_card(await extender.node(node)) == {f"{node}-0": 48, f"{node}-1": 48}


async def test_sigterm_stops_extender_with_open_connections(process):
    async with client_of(process), connected(process) as (reader, writer), connected(process):
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.read(1024)).startswith(b"HTTP/1.1 200 OK")
        process.signal(signal.SIGTERM)
        assert await process.ended(seconds=GRACE_SECONDS) == 0
    log = process.log.read_text()
    assert "extender stopped" in log
    assert "Traceback" not in log


async def test_sigterm_stops_extender_during_api_server_outage(tmp_path):
    kubeconfig = write_kubeconfig(tmp_path, f"http://127.0.0.1:{free_port()}")
    with Process(tmp_path, "--kubeconfig", str(kubeconfig)) as process:

        async def complains() -> bool:
            return "list and watch of /api/v1/nodes failed" in process.log.read_text()

        await until(complains)
        process.signal(signal.SIGTERM)
        assert await process.ended(seconds=GRACE_SECONDS) == 0


async def test_sigterm_waits_for_running_binds(process, world):
    async with client_of(process) as extender:
        node = await world.node(8, 80)
        await extender.shows(node, lambda view: view["state"] == "shared")
        pods = await world.pods(24, 24)
        binds = [asyncio.create_task(extender.bind(pod, node)) for pod in pods]
        await asyncio.wait(binds, return_when=asyncio.FIRST_COMPLETED)
        process.signal(signal.SIGTERM)
        assert await process.ended(seconds=GRACE_SECONDS) == 0
        answers = await asyncio.gather(*binds, return_exceptions=True)
    bound = [bool((await world.read(pod))["spec"].get("nodeName")) for pod in pods]
    # Whoever was told of success is bound; who was not may be, since the connection may have ended before the answer.
    assert all(done for done, answer in zip(bound, answers, strict=True) if answer == "")
    assert "" in answers
    assert "Traceback" not in process.log.read_text()
    assert sum((await world.charged(node)).values()) == 24 * sum(bound)


async def test_events_missed_during_pause_are_applied(process, world):
    async with client_of(process) as extender:
        node = await world.node(4, 80)
        await extender.shows(node, lambda view: view["state"] == "shared")
        gone, ended, kept = await world.pods(3, 24)
        assert [await extender.bind(pod, node) for pod in (gone, ended, kept)] == [""] * 3
        process.signal(signal.SIGSTOP)
        await world.delete(gone)
        await world.phase(ended, "Succeeded")
        new, brief, freed = await world.pods(3, 30)
        await world.bind_past(new, node, assignment(f"{node}-2", 30))
        await world.bind_past(brief, node, assignment(f"{node}-3", 30))
        await world.delete(brief)
        await world.bind_past(freed, node, assignment(f"{node}-3", 30))
        await world.phase(freed, "Failed")
        other = await world.node(1, 16)
        process.signal(signal.SIGCONT)
        right = {f"{node}-0": 24, f"{node}-2": 30}
        view = await extender.shows(node, lambda view: used_by_card(view) == right)
        assert used_by_card(view) == await world.charged(node)
        await extender.shows(other, lambda view: view["state"] == "shared")
        assert (await extender.readiness())[0] == 200


async def test_occupied_port_is_reported(control_plane, tmp_path):
    with Process(tmp_path, "--kubeconfig", str(control_plane.kubeconfig)) as first:
        async with client_of(first):
            with Process(tmp_path, "--kubeconfig", str(control_plane.kubeconfig), port=first.port) as second:
                assert await second.ended() == 1
                line = (
                    f"Error: cannot listen on 127.0.0.1:{first.port}: Address already in use; "
                    "stop the process that uses this port"
                )
                assert line in second.log.read_text()
                assert "Traceback" not in second.log.read_text()


async def test_extender_inspects_thousand_nodes(process, control_plane, world):
    count = 1000
    limit = asyncio.Semaphore(32)

    async def create() -> str:
        async with limit:
            return await world.node(8, 80)

    async with client_of(process) as extender:
        names = await asyncio.gather(*(create() for _ in range(count)))
        pods = await world.pods(4, 24)

        async def shown() -> list[dict]:
            views = {node["name"]: node for node in (await extender.inspect())["nodes"]}
            found = [views[name] for name in names if name in views]
            return found if len(found) == count else []

        assert all(len(node["cards"]) == 8 for node in await until(shown))
        fits = await extender.filter(pods[0], *names)
        # Those that the policy likes best of all that fit.
        assert list(fits) == ["NodeNames"]
        assert len(set(fits["NodeNames"])) == MOST_NODES
        assert set(fits["NodeNames"]) <= set(names)
        assert [await extender.bind(pod, names[number]) for number, pod in enumerate(pods)] == [""] * 4
        totals = (await extender.inspect())["totals"]
        assert totals["cards"] >= 8 * count
        assert totals["used_bytes"] == 4 * 24 * GIB
        command = [sys.executable, "-m", "accelkit", "inspect", "-o", "json", "--extender", process.url]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True, timeout=60)
        assert json.loads(done.stdout)["totals"] == totals
        assert len(json.loads(await world.api.get(PODS))["items"]) >= 4
