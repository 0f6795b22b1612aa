"""The extender's view of the cluster while its watches are cut, refused, or miss what happened."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time

import pytest
from extender_process import (
    Process,
    assignment,
    client_of,
    create_known_node,
    inventory,
    stages,
    used_by_card,
)
from proxy import Proxy, build_refusal
from support.waiting import until

pytest_plugins = ["extender_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


async def cut_again_and_again(proxy) -> None:
    while True:
        proxy.cut()
        await asyncio.sleep(0.15)


@pytest.mark.extended
async def test_ledger_is_correct_if_watches_are_cut_under_load(extender, world, proxy):
    nodes = [await create_known_node(extender, world, 4, 80) for _ in range(3)]
    chance = random.Random(4)  # noqa: S311 - a repeatable mixture

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

    cutting = asyncio.create_task(cut_again_and_again(proxy))
    try:
        for _ in range(6):
            await asyncio.gather(*(life() for _ in range(10)))
        gone = await world.node(1, 80)
        await world.annotate(nodes[0], inventory(nodes[0], 5))
        await world.delete_node(gone)
    finally:
        cutting.cancel()
    await extender.ready()
    charged = await world.charged(*nodes)
    assert charged
    assert max(charged.values()) <= 80

    async def agrees() -> bool:
        views = [await extender.node(node) for node in nodes]
        used = {card: gib for view in views for card, gib in used_by_card(view).items()}
        return used == charged and {stage for view in views for stage in stages(view)} <= {"confirmed"}

    await until(agrees)
    right = await from_api(proxy)
    await until(extender.inspect, accept=lambda found: found == right)
    assert len(next(view for view in right["nodes"] if view["name"] == nodes[0])["cards"]) == 5


async def from_api(proxy) -> dict:
    command = [sys.executable, "-m", "accelkit", "inspect", "--from-api", "-o", "json", "--kubeconfig"]
    done = await asyncio.to_thread(
        subprocess.run, [*command, str(proxy.kubeconfig)], capture_output=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


async def test_relist_applies_all_changes_during_outage(extender, world, proxy):
    node, gone = await create_known_node(extender, world, 2, 80), await create_known_node(extender, world, 1, 80)
    replaced, recreated = await world.pods(2, 24)
    assert [await extender.bind(pod, node) for pod in (replaced, recreated)] == ["", ""]
    proxy.close()
    for pod in (replaced, recreated):
        await world.delete(pod)
    again = await world.pod(40, name=recreated["metadata"]["name"])
    await world.bind_past(again, node, assignment(f"{node}-1", 40))
    await world.delete_node(gone)
    await proxy.start()
    await extender.ready()
    await extender.shows(node, lambda view: used_by_card(view) == {f"{node}-1": 40})
    uids = [share["uid"] for card in (await extender.node(node))["cards"] for share in card["shares"]]
    assert uids == [again["metadata"]["uid"]]
    await until(lambda: extender.node(gone), accept=lambda found: found == {})
    assert await extender.bind(await world.pod(1), gone) == "node is unknown to accelkit"


async def test_expired_watch_triggers_new_list(control_plane, tmp_path, world):
    node = await world.node(2, 80)
    async with Proxy(control_plane.kubeconfig, tmp_path) as proxy:
        with Process(tmp_path, "--kubeconfig", str(proxy.kubeconfig)) as process:
            async with client_of(process) as extender:
                lists = sum("limit=" in line for line in proxy.requests)
                proxy.instead = {"watch=1": build_refusal(410, "Expired")}
                proxy.cut()

                async def listed_again() -> bool:
                    return sum("limit=" in line for line in proxy.requests) >= lists + 4

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
