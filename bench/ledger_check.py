"""Compares what an extender shows with what the API server has: the shares on each card, by pod."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from bare_cluster import PODS, BareCluster, poll
from extenders import ExtenderClient

from accelkit.kube.listing import list_all
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.pod import Pod

# How long the watch of an extender may take on a busy machine.
_SECONDS = 120.0


async def count_miscounted(cluster: BareCluster, client: ExtenderClient, bound: int) -> int:
    """Return on how many cards ledger and assignments differ, or the shares exceed the card.

    Args:
        cluster: read for its pods' assignments.
        client: of the extender whose ledger is meant.
        bound: how many pods have been bound; waited for, since the extender is told by its watch.

    Raises:
        TimeoutError: the extender does not show as many.
    """
    inspected: dict[str, Any] = {}

    async def lists_all() -> bool:
        nonlocal inspected
        inspected = await client.inspect()
        return len({share["uid"] for card in _cards(inspected) for share in card["shares"]}) == bound

    await poll(lists_all, seconds=_SECONDS, what=f"the extender shows {bound} pods")
    pods, _ = await list_all(cluster.api, PODS, Pod)
    assigned = Counter[tuple[str, str]]()
    for pod in pods:
        if pod.spec.node_name:
            text = json.loads((pod.metadata.annotations or {})[ASSIGNMENT_ANNOTATION])
            for share in (share for shares in text["containers"].values() for share in shares):
                assigned[share["card"], pod.metadata.uid] += share["memory_bytes"]
    wrong = 0
    for card in _cards(inspected):
        counted = Counter[str]()
        for share in card["shares"]:
            counted[share["uid"]] += share["memory_bytes"]
        expected = {uid: assigned.pop((card["id"], uid), 0) for uid in counted}
        exceeded = max(sum(counted.values()), card["used_bytes"]) > card["capacity_bytes"]
        wrong += counted != expected or exceeded
    # What is left was assigned on cards on which the extender shows no share of that pod.
    return wrong + len(assigned)


async def wait_until_empty(client: ExtenderClient) -> None:
    """Wait until the extender shows that nothing is held.

    Raises:
        TimeoutError: it goes on holding something.
    """

    async def empty() -> bool:
        return not (await client.inspect())["totals"]["used_bytes"]

    await poll(empty, seconds=_SECONDS, what="the ledger is empty")


def _cards(inspected: dict[str, Any]) -> list[dict[str, Any]]:
    return [card for node in inspected["nodes"] for card in node["cards"]]
