"""The real extender process against a real API server: what it takes, what it frees, and what it does not believe."""

import asyncio
import json

import pytest
from extender_process import (
    ASSIGNMENT,
    CARDS,
    GIB,
    MEMORY,
    assignment,
    client_of,
    create_known_node,
    inventory,
    used_by_card,
)

pytest_plugins = ["extender_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]


@pytest.fixture
async def extender(process):
    async with client_of(process) as client:
        yield client


async def test_concurrent_binds_of_64_pods_fill_node_exactly(extender, world):
    node = await create_known_node(extender, world)
    pods = await world.pods(64, 24)
    errors = await asyncio.gather(*(extender.bind(pod, node) for pod in pods))
    assert errors.count("") == 24
    assert set(errors) == {"", "insufficient accelkit.io/memory in one card"}
    charged = await world.charged(node)
    # Three of 24 GiB fit a card of 80.
    assert sorted(charged.values()) == [72] * 8
    view = await extender.shows(node, lambda view: used_by_card(view) == charged)
    assert sum(len(card["shares"]) for card in view["cards"]) == 24
    bound = [bool((await world.read(pod))["spec"].get("nodeName")) for pod in pods]
    assert bound == [not error for error in errors]


async def test_inspect_lists_bound_pod_before_allocation(extender, world):
    node = await create_known_node(extender, world)
    pod = await world.pod(24)
    assert await extender.bind(pod, node) == ""
    view = await extender.node(node)
    shares = [share for card in view["cards"] for share in card["shares"]]
    assert [(share["pod"], share["uid"]) for share in shares] == [(pod["metadata"]["name"], pod["metadata"]["uid"])]
    assert shares[0]["stage"] in ("bound", "confirmed")
    assert (await world.read(pod))["status"]["phase"] == "Pending"
    assert view["totals"]["used_bytes"] == 24 * GIB


async def test_repeated_bind_succeeds_without_changes(extender, world):
    node = await create_known_node(extender, world)
    pod = await world.pod(24)
    assert set(await asyncio.gather(*(extender.bind(pod, node) for _ in range(16)))) == {""}
    first = await world.read(pod)
    for _ in range(3):
        assert await extender.bind(pod, node) == ""
    await extender.shows(node, lambda view: view["cards"][0]["shares"][0]["stage"] == "confirmed")
    assert await extender.bind(pod, node) == ""
    again = await world.read(pod)
    assert again["metadata"]["annotations"] == first["metadata"]["annotations"]
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert used_by_card(await extender.node(node)) == {f"{node}-0": 24}


async def test_bound_pod_is_not_bound_to_another_node(extender, world):
    node, other = await create_known_node(extender, world), await create_known_node(extender, world)
    pod = await world.pod(24)
    assert await extender.bind(pod, node) == ""
    assert node in await extender.bind(pod, other)
    await extender.shows(node, lambda view: view["cards"][0]["shares"][0]["stage"] == "confirmed")
    assert f"is already bound to node {node}" in await extender.bind(pod, other)
    assert await extender.used(other) == 0
    assert await extender.used(node) == 24


async def test_concurrent_binds_to_two_nodes_bind_pod_once(extender, world):
    nodes = [await create_known_node(extender, world), await create_known_node(extender, world)]
    pod = await world.pod(24)
    errors = await asyncio.gather(*(extender.bind(pod, node) for node in nodes))
    assert errors.count("") == 1
    winner = nodes[errors.index("")]
    assert (await world.read(pod))["spec"]["nodeName"] == winner
    assert await extender.used(winner) == 24
    assert await extender.used(nodes[1 - errors.index("")]) == 0


async def test_bind_with_wrong_uid_reserves_nothing(extender, world):
    node = await create_known_node(extender, world)
    pod = await world.pod(24)
    error = await extender.bind(pod, node, uid="11111111-2222-3333-4444-555555555555")
    assert "has been replaced" in error
    assert await extender.used(node) == 0
    assert not (await world.read(pod))["spec"].get("nodeName")
    assert await extender.bind(pod, node) == ""


async def test_bind_of_recreated_pod_requires_new_uid(extender, world):
    node = await create_known_node(extender, world)
    pod = await world.pod(24)
    await world.delete(pod)
    assert "no longer exists" in await extender.bind(pod, node)
    again = await world.pod(24, name=pod["metadata"]["name"])
    assert "has been replaced" in await extender.bind(pod, node)
    assert await extender.used(node) == 0
    assert await extender.bind(again, node) == ""


@pytest.mark.parametrize("way", ["deleted", "deleted by force", "Succeeded", "Failed"])
async def test_share_of_ended_pod_is_freed_immediately(extender, world, way):
    node = await create_known_node(extender, world, 1, 24)
    first, second = await world.pods(2, 24)
    assert await extender.bind(first, node) == ""
    assert await extender.bind(second, node) == "insufficient accelkit.io/memory in one card"
    if way.startswith("deleted"):
        await world.delete(first, seconds=0 if "force" in way else None)
    else:
        await world.phase(first, way)
    await extender.shows(node, lambda view: view["totals"]["used_bytes"] == 0)
    assert await extender.bind(second, node) == ""


async def test_assignment_of_a_user_is_ignored_and_overwritten(extender, world):
    node = await create_known_node(extender, world)
    lie = assignment(f"{node}-7", 1)
    pod = await world.pod(24, annotations=lie)
    fits = await extender.filter(pod, node)
    assert fits["NodeNames"] == [node]
    assert await extender.used(node) == 0
    assert await extender.bind(pod, node) == ""
    written = (await world.read(pod))["metadata"]["annotations"][ASSIGNMENT]
    assert written != lie[ASSIGNMENT]
    assert json.loads(written)["containers"]["main"] == [{"card": f"{node}-0", "memory_bytes": 24 * GIB}]
    assert used_by_card(await extender.node(node)) == {f"{node}-0": 24}


@pytest.mark.parametrize("way", ["created on the node", "bound by another"])
async def test_pod_bound_without_extender_gets_conservative_charge(extender, world, way):
    node = await create_known_node(extender, world, 2, 80)
    if way == "bound by another":
        stray = await world.pod(60)
        await world.bind_past(stray, node)
    else:
        stray = await world.pod(60, node_name=node)
    view = await extender.shows(node, lambda view: view["unassigned"])
    shown = {key: view["unassigned"][0][key] for key in ("pod", "uid", "memory_bytes", "whole")}
    meta = stray["metadata"]
    assert shown == {"pod": meta["name"], "uid": meta["uid"], "memory_bytes": 60 * GIB, "whole": False}
    more, less, whole = await world.pod(21), await world.pod(20), await world.pod(cards=1)
    assert await extender.bind(more, node) == "insufficient accelkit.io/memory in one card"
    assert await extender.bind(whole, node) == "insufficient free accelkit.io/cards"
    assert await extender.bind(less, node) == ""
    await world.delete(stray)
    await extender.shows(node, lambda view: not view["unassigned"])
    assert await extender.bind(more, node) == ""


async def test_whole_card_pod_bound_without_extender_blocks_all_cards(extender, world):
    node = await create_known_node(extender, world, 4, 80)
    await world.pod(cards=1, node_name=node)
    await extender.shows(node, lambda view: view["unassigned"])
    assert await extender.bind(await world.pod(cards=1), node) == "insufficient free accelkit.io/cards"
    assert await extender.bind(await world.pod(1), node) == "insufficient accelkit.io/memory in one card"


async def test_assignment_in_binding_of_another_scheduler_is_accepted(extender, world):
    node = await create_known_node(extender, world, 2, 80)
    pod = await world.pod(60)
    await world.bind_past(pod, node, assignment(f"{node}-1", 60))
    await extender.shows(node, lambda view: used_by_card(view) == {f"{node}-1": 60})
    assert await extender.bind(await world.pod(24), node) == ""
    assert used_by_card(await extender.node(node)) == {f"{node}-0": 24, f"{node}-1": 60}


@pytest.mark.parametrize(
    "text", ["{", '{"version": 2, "unit_bytes": 1, "cards": "of another shape"}', '{"version": 1}', "[]"]
)
async def test_unreadable_inventory_keeps_shares_and_blocks_new_ones(extender, world, text):
    node = await create_known_node(extender, world)
    kept, refused = await world.pods(2, 24)
    assert await extender.bind(kept, node) == ""
    await world.annotate(node, text)
    view = await extender.shows(node, lambda view: view["state"] == "unknown")
    assert "inventory is unknown" in view["problem"]
    assert used_by_card(view) == {f"{node}-0": 24}
    assert await extender.bind(refused, node) == "node's accelkit inventory is unknown"
    assert (await extender.filter(refused, node))["FailedNodes"] == {node: "node's accelkit inventory is unknown"}
    await world.annotate(node, inventory(node))
    await extender.shows(node, lambda view: view["state"] == "shared")
    assert await extender.bind(refused, node) == ""
    assert used_by_card(await extender.node(node)) == {f"{node}-0": 48}


async def test_node_with_unreadable_inventory_at_start_is_unknown(extender, world):
    node = await create_known_node(extender, world, annotation="nonsense")
    view = await extender.node(node)
    assert (view["state"], view["cards"]) == ("unknown", [])


async def test_inventory_can_appear_grow_and_disappear_at_runtime(extender, world):
    node = await world.node(annotation="")
    await extender.shows(node, lambda view: view["state"] == "none")
    first, second, third = await world.pods(3, 80)
    assert await extender.bind(first, node) == "node has no accelkit inventory"
    await world.annotate(node, inventory(node, 1))
    await extender.shows(node, lambda view: view["state"] == "shared")
    assert await extender.bind(first, node) == ""
    assert await extender.bind(second, node) == "insufficient accelkit.io/memory in one card"
    await world.annotate(node, inventory(node, 2))
    await extender.shows(node, lambda view: len(view["cards"]) == 2)
    assert await extender.bind(second, node) == ""
    await world.annotate(node, None)
    view = await extender.shows(node, lambda view: view["state"] == "none")
    assert used_by_card(view) == {f"{node}-0": 80, f"{node}-1": 80}
    assert await extender.bind(third, node) == "node has no accelkit inventory"


async def test_node_with_another_unit_gets_no_new_share(extender, world):
    node = await create_known_node(extender, world, annotation=inventory("other-unit", unit_bytes=2**20))
    refusal = await extender.bind(await world.pod(24), node)
    assert refusal == "node does not use the cluster's memory unit: it still uses 1MiB"


async def test_recreated_node_keeps_shares_of_its_pods(extender, world):
    node = await create_known_node(extender, world, 1, 80)
    pod = await world.pod(60)
    assert await extender.bind(pod, node) == ""
    await world.delete_node(node)
    await extender.shows(node, lambda view: not any(card["known"] for card in view["cards"]))
    assert await extender.bind(await world.pod(20), node) == "node is unknown to accelkit"
    await world.node(1, 80, name=node)
    await extender.shows(node, lambda view: view["state"] == "shared")
    assert used_by_card(await extender.node(node)) == {f"{node}-0": 60}
    assert await extender.bind(await world.pod(24), node) == "insufficient accelkit.io/memory in one card"


async def test_pod_without_cards_is_bound_without_annotation(extender, world):
    node = await create_known_node(extender, world)
    pod = await world.pod(cards=0)
    assert {MEMORY, CARDS} & pod["spec"]["containers"][0]["resources"]["limits"].keys() == {CARDS}
    assert await extender.bind(pod, node) == ""
    read = await world.read(pod)
    assert read["spec"]["nodeName"] == node
    assert ASSIGNMENT not in read["metadata"].get("annotations", {})
