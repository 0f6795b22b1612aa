"""Reads, changes and awaits several nodes at once."""

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
    """Return all nodes by their names.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    nodes, _ = await list_all(api, NODES, Node)
    return {node.metadata.name: node for node in nodes}


async def list_named(api: ApiClient, names: Collection[str]) -> dict[str, Node]:
    """Return those of the named nodes that are there.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    wanted = set(names)
    return {name: node for name, node in (await list_nodes(api)).items() if name in wanted}


async def for_each_node(names: Iterable[str], act: Callable[[str], Awaitable[None]]) -> None:
    """Do something to nodes, to several at once; one that was deleted in the meantime needs nothing.

    Raises:
        ApiError: what the first node failed with; the others were cancelled.
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
    """Wait until nothing is wrong with any of the named nodes, and return those that are there.

    Args:
        api: an open client.
        names: of the nodes; one that is deleted is no problem.
        seconds: how long to wait.
        find_problem: returns what is wrong with a node, None where nothing is.
        sentence: what is said of the nodes at the end; {count}, {all} and {list} are filled in.

    Raises:
        WaitError: something is wrong still.
        ApiError: the API server refused or did not answer.
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
                next_step="look at the node agent's pods there and at the node's Ready condition",
            )
        await asyncio.sleep(POLL_SECONDS)
