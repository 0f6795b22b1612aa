"""Reflector, which lists and watches a collection on the API server, and calls callbacks for changes.

The list is consistent (without resourceVersion) and paged. The watch starts at the version of the list and uses
bookmarks. After a watch ends, the next watch starts at the last received version. After 410 Gone or an error event, the
collection is listed again. After a failure, the reflector retries with backoff, without a limit on the number of
retries. `on_replace` receives the whole collection, and `on_event` receives one change. These callbacks run in the
event loop and must not block. If an object cannot be read, or `on_event` fails for an object, the reflector logs the
error once and counts it. Other objects are not affected.
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
from accelkit.kube.nesting import decode
from accelkit.reporting import OnceReporter
from accelkit.texts import shorten

T = TypeVar("T", bound=Listed)

log = logging.getLogger(__name__)

_TYPE_BYTES = 24  # enough for {"type":"BOOKMARK", with additional spaces
# The server ends each watch after this time, and sends a bookmark about once per minute. If no data arrives for a
# longer time, the connection is dead.
_WATCH_SECONDS = 300
_SILENCE_SECONDS = 150.0
# This time is multiplied by up to 1.5. The server still ends the watch before the client treats the connection as dead.
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
    """Reflector for one collection, which lists and watches until cancelled.

    Args:
        api: an open client.
        path: the path of the collection, such as `/api/v1/pods`.
        type_: the msgspec type of the objects. The decoder skips fields that the type does not contain.
        query: label and field selectors.
        bookmarks: whether the server sends bookmarks, which allow the client to detect a dead connection. Without
            bookmarks, each watch ends before the connection is treated as dead, and the collection is listed again.
        trim: a function that is called with each object, to remove fields that are not required.
        on_replace: a function that is called with all objects after each list.
        on_event: a function that is called with the event type (ADDED, MODIFIED or DELETED) and the object.
        on_unreadable: a function that is called with the event type and the text of each object that cannot be read.
            For a list, it is called after `on_replace`.
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
        # The number of requested lists, and the number of the last list that completed. The version cannot be used
        # instead, because it can be set after the request by an event that was received before the request.
        self._requested, self._completed = 1, 0
        self._failures = 0
        self._disconnected_at: float | None = time.monotonic()
        self._running: asyncio.Timeout | None = None
        self.synced = asyncio.Event()

    def measure_silence_seconds(self) -> float:
        """Return how long no connection to the API server has been open, in seconds; 0 while one is open."""
        return 0.0 if self._disconnected_at is None else time.monotonic() - self._disconnected_at

    @property
    def version(self) -> str:
        """The last received version of the collection. During `on_replace`, it is the version of the list."""
        return self._version

    @property
    def unreadable(self) -> int:
        """The number of objects that could not be read."""
        return self._errors.count

    def relist(self) -> None:
        """List the collection again immediately. This is useful if a dead watch may not have been detected."""
        self._requested += 1
        # If the watch is already ending, the collection is listed without further action.
        if self._running is not None and not self._running.expired():
            self._running.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> None:
        """List and watch the collection until cancelled."""
        while True:
            started = time.monotonic()
            try:
                await self._list_and_watch()
                self._failures = 0
                if time.monotonic() - started < _BACK_OFF.first_seconds:
                    # Pause between requests, because the server may end each watch immediately.
                    await asyncio.sleep(_BACK_OFF.first_seconds)
            except TimeoutError:
                # `relist` was called.
                continue
            except ApiError as exc:
                if exc.expired:
                    self._requested += 1
                if self._disconnected_at is None:
                    self._disconnected_at = time.monotonic()
                self._failures += 1
                delay = _BACK_OFF.compute(self._failures + 1) * random.uniform(0.5, 1.0)  # noqa: S311 - jitter
                log.warning("list and watch of %s failed, retrying in %.1f s: %s", self._path, delay, exc)
                await asyncio.sleep(delay)

    async def _list_and_watch(self) -> None:
        try:
            async with asyncio.timeout(None) as self._running:
                while self._completed != self._requested:
                    await self._list()
                await self._watch()
        finally:
            self._running = None

    async def _list(self) -> None:
        requested = self._requested
        unreadable: list[bytes] = []

        def leave_out(text: bytes, error: Exception) -> None:
            self._report(text, error)
            unreadable.append(text)

        items, self._version = await list_all(
            self._api, self._path, self._type, query=self._query, trim=self._trim, on_unreadable=leave_out
        )
        if requested != self._requested:
            # Another list was requested after this list started, so this list is outdated.
            return
        self._completed = requested
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
                    raise ApiError(f"cannot read the watch of {self._path}: {exc}", status=HTTPStatus.GONE) from exc
                # Only received data proves that the connection works, because a server may accept each watch and then
                # send an error event.
                self._failures = 0
                if object_ is not None:
                    self._deliver(kind, object_)
        if not self._bookmarks:
            # The version is that of the last change, which may be too old to resume the watch.
            self._requested += 1

    def _deliver(self, kind: str, object_: T) -> None:
        try:
            self._on_event(kind, object_)
        except Exception as exc:  # noqa: BLE001 - one object must not end the service
            name = str(object_.metadata)
            self._errors.report(name, f"skipped a change of {name} in {self._path}", error=exc)

    def _report(self, text: bytes, error: Exception) -> None:
        name = name_unreadable(text)
        self._errors.report(name, f"cannot read {name} in {self._path}: {shorten(str(error))}")

    def _read(self, line: bytes) -> tuple[str, T | None]:
        # The event type is the first field. Most events are changes, so they are decoded directly with the final type.
        if not any(kind in line[:_TYPE_BYTES] for kind in (b'"BOOKMARK"', b'"ERROR"')):
            try:
                event = decode(self._change, line)
            except UNREADABLE as exc:
                return self._leave_out(line, exc)
            self._version = event.object.metadata.resource_version
            return event.type, event.object
        other = decode(_event, line)
        if other.type == "ERROR":
            # After each error from the server, the collection is listed again.
            raise ApiError(_failure.decode(other.object).message, status=HTTPStatus.GONE)
        self._version = _identified.decode(other.object).metadata.resource_version
        return other.type, None

    def _leave_out(self, line: bytes, error: Exception) -> tuple[str, None]:
        event = decode(_event, line)
        self._version = _identified.decode(event.object).metadata.resource_version
        text = bytes(event.object)
        self._report(text, error)
        self._on_unreadable(event.type, text)
        return event.type, None
