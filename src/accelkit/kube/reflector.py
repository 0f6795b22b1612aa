"""Lists and watches a collection of the API server, and tells the caller each change.

The list is consistent (no resourceVersion) and paged; the watch goes on from it with bookmarks. A watch that ends is
resumed from the last version seen; 410 Gone, or an error event, lists again. Failures back off and never end the
reflector. `on_replace` gets the whole collection, `on_event` one change: both run in the event loop and must not block.
An object that cannot be read, or that `on_event` fails on, is logged once and counted, and the others go on.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Generic, TypeVar

import msgspec

from accelkit.back_off import BackOff
from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE, Identified, Listed, list_all, name_unreadable
from accelkit.reporting import OnceReporter
from accelkit.texts import shorten

T = TypeVar("T", bound=Listed)

log = logging.getLogger(__name__)

_TYPE_BYTES = 24  # enough for {"type":"BOOKMARK", however it is spaced
# The server ends each watch after this and sends a bookmark about once a minute: longer silence is a dead connection.
_WATCH_SECONDS = 300
_SILENCE_SECONDS = 150.0
# Half as long again at most, so that the server ends it first.
_SILENT_WATCH_SECONDS = 90
_BACK_OFF = BackOff(0.2, 10.0)
_identified = msgspec.json.Decoder(Identified)


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Change(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _Failure(msgspec.Struct):
    code: int = 0
    message: str = ""


_failure = msgspec.json.Decoder(_Failure)
_event = msgspec.json.Decoder(_Event)


class Reflector(Generic[T]):
    """One collection, listed and watched until cancelled.

    Args:
        api: an open client.
        path: the collection, as `/api/v1/pods`.
        type_: the msgspec type of one object; fields it does not name are skipped while decoding.
        query: label and field selectors.
        bookmarks: whether the server tells that nothing changes, by which a silent watch is told from a dead one; else
            it is ended before it is silent for too long, and all is listed again.
        trim: takes from each object what need not be kept.
        on_replace: called with all objects after each list.
        on_event: called with ADDED, MODIFIED or DELETED and the object.
        on_unreadable: called with the same and the text of an object that cannot be read; after `on_replace`.
    """

    def __init__(
        self,
        api: ApiClient,
        path: str,
        type_: type[T],
        *,
        query: Mapping[str, str] | None = None,
        bookmarks: bool = True,
        trim: Callable[[T], None] = lambda _object: None,
        on_replace: Callable[[list[T]], None],
        on_event: Callable[[str, T], None],
        on_unreadable: Callable[[str, bytes], None] = lambda _kind, _text: None,
    ) -> None:
        self._api = api
        self._path = path
        self._query = dict(query or {})
        self._bookmarks = bookmarks
        self._trim = trim
        self._on_replace = on_replace
        self._on_event = on_event
        self._on_unreadable = on_unreadable
        self._errors = OnceReporter(log)
        self._type = type_
        self._change: msgspec.json.Decoder[_Change[T]] = msgspec.json.Decoder(_Change[type_])  # type: ignore[valid-type]
        self._version = ""
        # How many lists were asked for, and how many of them the last one answered. The version cannot say so: an event
        # that was received before a list was asked for, and is told after it, sets it.
        self._asked, self._answered = 1, 0
        self._failures = 0
        self._disconnected_at: float | None = time.monotonic()
        self._turn: asyncio.Timeout | None = None
        self.synced = asyncio.Event()

    def measure_silence_seconds(self) -> float:
        """Return for how long there has been no connection to the API server: 0 while one is open."""
        return 0.0 if self._disconnected_at is None else time.monotonic() - self._disconnected_at

    @property
    def version(self) -> str:
        """The version of the collection that was listed or watched last; in `on_replace` that of the list."""
        return self._version

    @property
    def unreadable(self) -> int:
        """How many objects could not be read."""
        return self._errors.count

    def relist(self) -> None:
        """List anew now: a watch may be dead without our knowing."""
        self._asked += 1
        # One that is ending already lists next.
        if self._turn is not None and not self._turn.expired():
            self._turn.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            started = time.monotonic()
            try:
                await self._list_and_watch()
                self._failures = 0
                if time.monotonic() - started < _BACK_OFF.first_seconds:
                    # A server that ends each watch at once must not be asked without pause.
                    await asyncio.sleep(_BACK_OFF.first_seconds)
            except TimeoutError:
                # relist
                continue
            except ApiError as exc:
                if exc.expired:
                    self._asked += 1
                if self._disconnected_at is None:
                    self._disconnected_at = time.monotonic()
                self._failures += 1
                delay = _BACK_OFF.compute(self._failures + 1) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
                log.warning("list and watch of %s failed, again in %.1f s: %s", self._path, delay, exc)
                await asyncio.sleep(delay)

    async def _list_and_watch(self) -> None:
        try:
            async with asyncio.timeout(None) as self._turn:
                while self._answered != self._asked:
                    await self._list()
                await self._watch()
        finally:
            self._turn = None

    async def _list(self) -> None:
        asked = self._asked
        unreadable: list[bytes] = []

        def leave_out(text: bytes, error: Exception) -> None:
            self._report(text, error)
            unreadable.append(text)

        items, self._version = await list_all(
            self._api, self._path, self._type, query=self._query, trim=self._trim, on_unreadable=leave_out
        )
        if asked != self._asked:
            # It was read before the last one was asked for.
            return
        self._answered = asked
        self._on_replace(items)
        for text in unreadable:
            self._on_unreadable("ADDED", text)
        self._disconnected_at = None
        self.synced.set()

    async def _watch(self) -> None:
        seconds = _WATCH_SECONDS if self._bookmarks else _SILENT_WATCH_SECONDS
        query = {
            **self._query,
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(seconds * random.uniform(1.0, 1.5))),  # noqa: S311 - spreads the resumes
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
                    self._tell(kind, object_)
        if not self._bookmarks:
            # The version is that of the last change, which may be too old to go on from.
            self._asked += 1

    def _tell(self, kind: str, object_: T) -> None:
        try:
            self._on_event(kind, object_)
        except Exception as exc:  # noqa: BLE001 - one object must not end the service
            name = str(object_.metadata)
            self._errors.report(name, f"a change of {name} in {self._path} is left out", error=exc)

    def _report(self, text: bytes, error: Exception) -> None:
        name = name_unreadable(text)
        self._errors.report(name, f"{name} in {self._path} cannot be read: {shorten(str(error))}")

    def _read(self, line: bytes) -> tuple[str, T | None]:
        # The type comes first. Most events are changes: decoded once, as what they are.
        if not any(kind in line[:_TYPE_BYTES] for kind in (b'"BOOKMARK"', b'"ERROR"')):
            try:
                event = self._change.decode(line)
            except UNREADABLE as exc:
                return self._leave_out(line, exc)
            self._version = event.object.metadata.resource_version
            return event.type, event.object
        other = _event.decode(line)
        if other.type == "ERROR":
            # Whatever the server objects to, a fresh list is the answer.
            raise ApiError(_failure.decode(other.object).message, status=HTTPStatus.GONE)
        self._version = _identified.decode(other.object).metadata.resource_version
        return other.type, None

    def _leave_out(self, line: bytes, error: Exception) -> tuple[str, None]:
        event = _event.decode(line)
        self._version = _identified.decode(event.object).metadata.resource_version
        text = bytes(event.object)
        self._report(text, error)
        self._on_unreadable(event.type, text)
        return event.type, None
