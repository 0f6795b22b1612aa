"""Functions that read, change and wait for several nodes at the same time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Final

from accelkit.errors import ApiError, WaitError, raise_first
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES
from accelkit.model.pod import Node
from accelkit.texts import list_some

POLL_SECONDS: Final = 1.0
_AT_ONCE: Final = 16


async def list_nodes(api: ApiClient) -> dict[str, Node]:
    """Return all nodes by name.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    nodes, _ = await list_all(api, NODES, Node)
    return {node.metadata.name: node for node in nodes}


async def list_named(api: ApiClient, names: Collection[str]) -> dict[str, Node]:
    """Return the nodes with these names that exist.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    requested = set(names)
    return {name: node for name, node in (await list_nodes(api)).items() if name in requested}


async def for_each_node(names: Iterable[str], act: Callable[[str], Awaitable[None]]) -> None:
    """Apply a change to several nodes at the same time. Skip nodes that have been deleted.

    Raises:
        ApiError: a change failed. The changes to the other nodes were cancelled.
    """
    limit = asyncio.Semaphore(_AT_ONCE)

    async def act_once(name: str) -> None:
        async with limit:
            try:
                await act(name)
            except ApiError as exc:
                if not exc.not_found:
                    raise

    with raise_first(Exception):
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(act_once(name))


async def wait_until_no_problem(
    api: ApiClient, names: Collection[str], seconds: float, find_problem: Callable[[Node], str | None], sentence: str
) -> dict[str, Node]:
    """Wait until no node with these names has a problem; return the nodes that exist.

    Args:
        api: an open client.
        names: the names of the nodes. A node that has been deleted has no problem.
        seconds: the maximum time to wait.
        find_problem: a function that returns the problem of a node; None if the node has no problem.
        sentence: the error message, which contains the placeholders {count}, {all} and {list}.

    Raises:
        WaitError: a node still has a problem.
        ApiError: the API server rejected the request or did not respond.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = await list_named(api, names)
        problems = {name: text for name, node in sorted(found.items()) if (text := find_problem(node))}
        if not problems:
            return found
        if time.monotonic() >= deadline:
            listing = "; ".join(f"{name}: {text}" for name, text in problems.items())
            raise WaitError(
                seconds,
                f"{len(problems)} of {len(names)} nodes: {list_some(problems)}",
                sentence.format(count=len(problems), all=len(names), list=listing),
                next_step="check the node agent's pods on these nodes and the nodes' Ready conditions",
            )
        await asyncio.sleep(POLL_SECONDS)
