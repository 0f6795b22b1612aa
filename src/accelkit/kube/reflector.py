"""Lists and watches a collection of the API server, and tells the caller each change.

The list is consistent (no resourceVersion) and paged; the watch goes on from it with bookmarks. A watch that ends is
resumed from the last version seen; 410 Gone, or an error event, lists again. Failures back off and never end the
reflector. `on_replace` gets the whole collection, `on_event` one change: both run in the event loop and must not block.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Generic, Protocol, TypeVar

import msgspec

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.model.object_meta import ObjectMeta


class Listed(Protocol):
    """What the objects of a collection must tell: the version from which a watch goes on."""

    @property
    def metadata(self) -> ObjectMeta:
        """Metadata of the object."""


T = TypeVar("T", bound=Listed)

log = logging.getLogger(__name__)

_PAGE = "500"
_TYPE_BYTES = 24  # enough for {"type":"BOOKMARK", however it is spaced
# The server ends each watch after this and sends a bookmark about once a minute: longer silence is a dead connection.
_WATCH_SECONDS = 300
_SILENCE_SECONDS = 150.0
_BACK_OFF_SECONDS = (0.2, 10.0)
# What the decoder raises: also for text that is no UTF-8, and for what is nested too deep.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Change(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _Versioned(msgspec.Struct):
    metadata: ObjectMeta


class _Failure(msgspec.Struct):
    code: int = 0
    message: str = ""


async def list_all(
    api: ApiClient, path: str, type_: type[T], *, query: Mapping[str, str] | None = None
) -> tuple[list[T], str]:
    """Return a whole collection, read page by page, and its resource version.

    Raises:
        ApiError: the API server refused, or did not answer so that it can be read; 410 where the pages took too long.
    """
    decoder: msgspec.json.Decoder[_Page[T]] = msgspec.json.Decoder(_Page[type_])  # type: ignore[valid-type]
    items: list[T] = []
    page_query = {**(query or {}), "limit": _PAGE}
    while True:
        answer = await api.get(path, query=page_query)
        try:
            page = decoder.decode(answer)
        except UNREADABLE as exc:
            raise ApiError(f"the list of {path} cannot be read: {exc}") from exc
        items.extend(page.items or ())
        if not page.metadata.continue_:
            return items, page.metadata.resource_version
        page_query["continue"] = page.metadata.continue_


_event = msgspec.json.Decoder(_Event)


class Reflector(Generic[T]):
    """One collection, listed and watched until cancelled.

    Args:
        api: an open client.
        path: the collection, as `/api/v1/pods`.
        type_: the msgspec type of one object; fields it does not name are skipped while decoding.
        query: label and field selectors.
        on_replace: called with all objects after each list.
        on_event: called with ADDED, MODIFIED or DELETED and the object.
    """

    def __init__(
        self,
        api: ApiClient,
        path: str,
        type_: type[T],
        *,
        query: Mapping[str, str] | None = None,
        on_replace: Callable[[list[T]], None],
        on_event: Callable[[str, T], None],
    ) -> None:
        self._api = api
        self._path = path
        self._query = dict(query or {})
        self._on_replace = on_replace
        self._on_event = on_event
        self._type = type_
        self._change: msgspec.json.Decoder[_Change[T]] = msgspec.json.Decoder(_Change[type_])  # type: ignore[valid-type]
        self._version = ""
        self._failures = 0
        self._disconnected_at: float | None = time.monotonic()
        self._turn: asyncio.Timeout | None = None
        self.synced = asyncio.Event()

    def measure_silence_seconds(self) -> float:
        """Return for how long there has been no connection to the API server: 0 while one is open."""
        return 0.0 if self._disconnected_at is None else time.monotonic() - self._disconnected_at

    def relist(self) -> None:
        """List anew now: a watch may be dead without our knowing."""
        self._version = ""
        if self._turn is not None:
            self._turn.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            started = time.monotonic()
            try:
                await self._list_and_watch()
                self._failures = 0
                if time.monotonic() - started < _BACK_OFF_SECONDS[0]:
                    # A server that ends each watch at once must not be asked without pause.
                    await asyncio.sleep(_BACK_OFF_SECONDS[0])
            except TimeoutError:
                # relist
                continue
            except ApiError as exc:
                if exc.expired:
                    self._version = ""
                if self._disconnected_at is None:
                    self._disconnected_at = time.monotonic()
                self._failures += 1
                low, high = _BACK_OFF_SECONDS
                delay = min(high, low * 2 ** min(self._failures, 10)) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
                log.warning("list and watch of %s failed, again in %.1f s: %s", self._path, delay, exc)
                await asyncio.sleep(delay)

    async def _list_and_watch(self) -> None:
        try:
            async with asyncio.timeout(None) as self._turn:
                if not self._version:
                    await self._list()
                await self._watch()
        finally:
            self._turn = None

    async def _list(self) -> None:
        items, self._version = await list_all(self._api, self._path, self._type, query=self._query)
        self._on_replace(items)
        self._disconnected_at = None
        self.synced.set()

    async def _watch(self) -> None:
        query = {
            **self._query,
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(_WATCH_SECONDS * random.uniform(1.0, 1.5))),  # noqa: S311 - spreads the resumes
        }
        async with self._api.stream(self._path, query=query, silence_seconds=_SILENCE_SECONDS) as lines:
            self._disconnected_at = None
            async for line in lines:
                try:
                    kind, object_ = self._read(line)
                except UNREADABLE as exc:
                    raise ApiError(f"the watch of {self._path} cannot be read: {exc}", status=HTTPStatus.GONE) from exc
                # Only what arrives proves a connection: a server may accept every watch and refuse each in its answer.
                self._failures = 0
                if object_ is not None:
                    self._on_event(kind, object_)

    def _read(self, line: bytes) -> tuple[str, T | None]:
        # The type comes first. Most events are changes: decoded once, as what they are.
        if not any(kind in line[:_TYPE_BYTES] for kind in (b'"BOOKMARK"', b'"ERROR"')):
            event = self._change.decode(line)
            self._version = event.object.metadata.resource_version
            return event.type, event.object
        other = _event.decode(line)
        if other.type == "ERROR":
            # Whatever the server objects to, a fresh list is the answer.
            raise ApiError(msgspec.json.decode(other.object, type=_Failure).message, status=HTTPStatus.GONE)
        self._version = msgspec.json.decode(other.object, type=_Versioned).metadata.resource_version
        return other.type, None
