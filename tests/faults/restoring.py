"""The laboratory as it was before a storm, so that the next one follows from its own seed alone."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence

from faults.laboratory import OURS, Laboratory, parse_unit

from accelkit.errors import ApiError
from accelkit.sandbox.layout import write_atomically
from accelkit.sandbox.nodes import NodeSpec, encode_cards

RESTORE_SECONDS = 90.0
# In this order: what makes pods first.
COLLECTIONS = (
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/replicasets",
    "/api/v1/namespaces/default/pods",
)


async def restore(laboratory: Laboratory, unit: str, policy: str, dialect: str) -> None:
    """Delete all pods, and give nodes and services what they had when the laboratory started.

    Raises:
        TimeoutError: that takes too long; the message says what is missing.
    """
    deadline = time.monotonic() + RESTORE_SECONDS
    await _until_nothing(_list_left, laboratory, deadline)
    shape = laboratory.shape
    if (shape.unit, shape.policy, shape.dialect) != (unit, policy, dialect):
        shape.unit, shape.policy, shape.dialect = unit, policy, dialect
        for name, member in laboratory.members.items():
            if name.startswith(OURS):
                await member.restart()
    for spec in laboratory.specs:
        file = laboratory.roots[spec.name] / "etc/accelkit/simulated-cards.json"
        if file.read_bytes() != encode_cards(spec):
            write_atomically(file, encode_cards(spec))
        await laboratory.api.patch(f"/api/v1/nodes/{spec.name}", {"spec": {"unschedulable": None}})
    for member in laboratory.members.values():
        await member.ready()
    await _until_nothing(_list_missing, laboratory, deadline)


async def _list_left(laboratory: Laboratory) -> list[str]:
    """Delete what makes pods, and pods; return what is left."""
    left = []
    for path in COLLECTIONS:
        await laboratory.api.delete(path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
        left += [item["metadata"]["name"] for item in (await laboratory.read(path))["items"]]
    return left


async def _list_missing(laboratory: Laboratory) -> list[str]:
    """Return the nodes that do not offer all of their cards."""
    nodes = {item["metadata"]["name"]: item for item in (await laboratory.read("/api/v1/nodes"))["items"]}
    resource, unit = laboratory.shape.resources[0], parse_unit(laboratory.shape.unit)
    missing = []
    for spec in laboratory.specs:
        offered = nodes.get(spec.name, {}).get("status", {}).get("allocatable", {}).get(resource, "0")
        if int(offered) != count_units(spec, unit):
            missing.append(f"{spec.name} offers {offered} of {count_units(spec, unit)} {resource}")
    return missing


def count_units(spec: NodeSpec, unit: int) -> int:
    """Return how many units of memory a node offers."""
    return sum(card.memory_bytes // unit for card in spec.cards)


async def _until_nothing(
    question: Callable[[Laboratory], Awaitable[Sequence[str]]], laboratory: Laboratory, deadline: float
) -> None:
    found: Sequence[str] = ("the API server does not answer",)
    while found:
        if time.monotonic() > deadline:
            raise TimeoutError(f"not as before the storm after {RESTORE_SECONDS:.0f} s: {'; '.join(found)}")
        await asyncio.sleep(0.1)
        with contextlib.suppress(ApiError):
            found = await question(laboratory)
