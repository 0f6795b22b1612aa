"""Serves the nodes and pods of a large cluster as an API server lists them; nothing changes.

Objects are made page by page as they are asked for, since a real API server takes half an hour and gigabytes for a
hundred thousand pods. Watches stay open and carry bookmarks.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import world
from aiohttp import web

from accelkit.kube.paths import NODES, PODS

_VERSION = "2000000"
_BOOKMARK_SECONDS = 30.0
_encode = msgspec.json.Encoder().encode


def serve(port: int, nodes: int, pods: int) -> None:
    """Serve on the loopback address until the process is ended; the pods are spread evenly over the nodes."""
    application = _build(nodes, pods)
    # Watches never end by themselves.
    web.run_app(application, host="127.0.0.1", port=port, shutdown_timeout=0.1, print=None, access_log=None)


def _build(nodes: int, pods: int) -> web.Application:
    async def get_ready(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    application = web.Application()
    application.router.add_get("/readyz", get_ready)
    application.router.add_get(NODES, _collection("Node", nodes, world.build_node))
    application.router.add_get(
        PODS, _collection("Pod", pods, lambda each: world.build_bound_pod(each % nodes, each // nodes))
    )
    return application


def _collection(kind: str, size: int, build: Callable[[int], dict[str, Any]]) -> Callable[..., Any]:
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch"):
            return await _watch(request, kind)
        first = int(request.query.get("continue", "0"))
        last = min(size, first + int(request.query.get("limit", size)))
        metadata = {"resourceVersion": _VERSION, **({"continue": str(last)} if last < size else {})}
        items = [build(number) for number in range(first, last)]
        page = {"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata, "items": items}
        return web.Response(body=_encode(page), content_type="application/json")

    return answer


async def _watch(request: web.Request, kind: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    for _ in itertools.count():
        bookmark = {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": _VERSION}}
        await response.write(_encode({"type": "BOOKMARK", "object": bookmark}) + b"\n")
        await asyncio.sleep(_BOOKMARK_SECONDS)
    return response
