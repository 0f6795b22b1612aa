"""Watches of the collections of a FakeApi."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from fake_api.places import place, selected
from fake_api.server import FakeApi, Request

_POLL_SECONDS = 0.005
_Items = dict[tuple[str, str], dict[str, Any]]


class WatchedApi(FakeApi):
    """A FakeApi that tells what has changed in a collection since it was listed with the same selectors."""

    def __init__(self) -> None:
        super().__init__()
        self._listed: dict[tuple[str, str], _Items] = {}

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str],
        silence_seconds: float,  # noqa: ARG002 - of ApiClient
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch; yields its lines."""
        yield self._follow(path, query)

    def _read(self, request: Request) -> bytes:
        answer = super()._read(request)
        self._listed[_name(request.path, request.query)] = self._select(request.path, request.query)
        return answer

    async def _follow(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        seen = self._listed[_name(path, query)]
        while True:
            now = self._select(path, query)
            for key in seen.keys() - now.keys():
                yield _encode("DELETED", seen[key])
            for key, item in now.items():
                if item != seen.get(key):
                    yield _encode("MODIFIED" if key in seen else "ADDED", item)
            seen = now
            await asyncio.sleep(_POLL_SECONDS)

    def _select(self, path: str, query: Mapping[str, str]) -> _Items:
        """Return the objects of a collection by path and UID, since a name can be another object's by now."""
        shown = {each: self._shown(each) for each in self.objects if place(path).holds(place(each))}
        return {(each, item["metadata"].get("uid", "")): item for each, item in shown.items() if selected(item, query)}


def _name(path: str, query: Mapping[str, str]) -> tuple[str, str]:
    return path, query.get("labelSelector", "") + "&" + query.get("fieldSelector", "")


def _encode(kind: str, item: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode({"type": kind, "object": item})
