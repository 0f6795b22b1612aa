"""Looks whether the caches of the store are what was extracted, and protects them where that is possible.

What nobody can write is read once in each run of the kernel, since a power cut may have taken contents; everything else
is read again and again. The record's boot says in which run a cache was last found to be what it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec

from accelkit.cacheagent.disk.store import Store
from accelkit.cacheagent.metrics import Metrics
from accelkit.errors import CacheError
from accelkit.kernelcache.extraction import CompletionRecord
from accelkit.kernelcache.extraction.folder import Place, lock_place
from accelkit.kernelcache.extraction.integrity.content import ContentVerdict, verify_content
from accelkit.kernelcache.extraction.integrity.protection import (
    Protection,
    ProtectionState,
    is_protected,
    probe,
    protect,
)
from accelkit.kernelcache.extraction.reader_thread import run_to_completion
from accelkit.kernelcache.extraction.record import format_time, read_boot_id, read_record
from accelkit.logs import ErrorReporter, Facts

log = logging.getLogger(__name__)

LOOK_AGAIN_SECONDS: Final = 600.0
# Reading comes after everything else that the node does, and takes a quarter of the time at most.
_NICENESS: Final = 19
_REST_SHARE: Final = 3.0
_LEAST_REST_SECONDS: Final = 0.05
# While somebody renews a record.
_LOCK_SECONDS: Final = 10.0
_TOLD_SECONDS: Final = 3600.0


class ContentLooks:
    """Looks at the caches of one store.

    Args:
        store: an open one.
        metrics: what is counted.
        seconds: between the ends and the beginnings of looks.
        on_change: called when a cache was taken out of the store.
    """

    def __init__(
        self, store: Store, metrics: Metrics, *, seconds: float = LOOK_AGAIN_SECONDS, on_change: Callable[[], None]
    ) -> None:
        self._store, self._metrics, self._seconds, self._on_change = store, metrics, seconds, on_change
        self._errors: dict[str, ErrorReporter] = {}
        self._protection: Protection | None = None
        # By folder, when it was found changed, and what is told of it.
        self._changed: dict[str, tuple[float, str]] = {}

    @property
    def changed(self) -> dict[str, str]:
        """What is told of the folders that were found changed in the last hour."""
        since = time.monotonic() - _TOLD_SECONDS
        self._changed = {folder: told for folder, told in self._changed.items() if told[0] > since}
        return {folder: message for folder, (_, message) in self._changed.items()}

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self._seconds)

    async def look(self) -> None:
        """Look at every cache that is there, one after the other."""
        await self._note_protection()
        for folder in sorted(self._store.stored):
            try:
                await self._look_at(folder)
            except (CacheError, OSError) as exc:
                if folder in self._store.stored:
                    reporter = self._errors.setdefault(folder, ErrorReporter(log))
                    reporter.report(str(exc), f"{folder} may not be what was extracted, or not stay so: {exc}")
            except Exception:
                # One cache must not end the agent.
                log.exception("the look at %s met a defect", folder)
            else:
                self._errors.pop(folder, None)
        self._errors = {folder: each for folder, each in self._errors.items() if folder in self._store.stored}

    async def _note_protection(self) -> None:
        found = await run_to_completion(partial(probe, self._store.root))
        if found != self._protection and found.state is not ProtectionState.PROTECTED:
            log.warning(
                "kernel caches of this node are not protected against pods that mount them writable: %s; they are read "
                "again every %.0f s",
                found.message,
                self._seconds,
            )
        self._protection = found
        for state in ProtectionState:
            self._metrics.protection.labels(state.value).set(state is found.state)

    async def _look_at(self, folder: str) -> None:
        # Kept open, so that a folder that is made meanwhile cannot have its inode.
        opened = os.open(self._store.find_place(folder).folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            await self._look_into(folder, opened)
        finally:
            os.close(opened)

    async def _look_into(self, folder: str, opened: int) -> None:
        place = self._store.find_place(folder)
        record = read_record(place.folder)
        if record is None:
            return
        boot = read_boot_id() or ""
        told = Protection(ProtectionState.PROTECTED)
        protected = await run_to_completion(partial(is_protected, place.cache))
        if protected and boot and record.boot == boot and record.content_digest:
            return
        if not protected and self._can_protect:
            # Who is killed in between reads it at the next start.
            await self._renew(place, boot="")
            told = await run_to_completion(partial(protect, place.cache))
        verdict = await _verify(place, record)
        if verdict.holds is False:
            await self._take_out(folder, opened, verdict)
        elif not verdict.holds or boot != record.boot or (not protected and self._can_protect):
            await self._renew(place, boot=boot, content_digest=verdict.digest)
        if told.state is not ProtectionState.PROTECTED:
            raise CacheError(f"it cannot be protected: {told.message}")

    @property
    def _can_protect(self) -> bool:
        return self._protection is not None and self._protection.state is ProtectionState.PROTECTED

    async def _renew(self, place: Place, **changes: str) -> None:
        async with lock_place(place, _LOCK_SECONDS):
            record = read_record(place.folder)
            if record is not None:
                await run_to_completion(partial(place.renew, msgspec.structs.replace(record, **changes)))

    async def _take_out(self, folder: str, opened: int, verdict: ContentVerdict) -> None:
        if not await self._store.take_out(folder, opened, _LOCK_SECONDS):
            return
        at = format_time(datetime.now(UTC))
        message = (
            f"at {at} the files on this node were not those that were extracted ({verdict.difference}); they were "
            "deleted, and are extracted anew. Find the pods that mounted the claim writable; pods that read them then "
            "may have run what somebody else wrote"
        )
        self._changed[folder] = time.monotonic(), message
        self._metrics.content_changed.inc()
        log.error(Facts("cache content changed", folder=folder, difference=verdict.difference))
        self._on_change()


async def _verify(place: Place, record: CompletionRecord) -> ContentVerdict:
    """Read a cache in a thread of its own, which ends soon after nobody waits for it any more."""
    stop = threading.Event()
    debt = 0.0

    def rest(seconds: float) -> bool:
        nonlocal debt
        debt += seconds * _REST_SHARE
        if debt < _LEAST_REST_SECONDS:
            return not stop.is_set()
        due, debt = debt, 0.0
        return not stop.wait(due)

    def verify() -> ContentVerdict | None:
        # Of this thread alone, as Linux has it.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        return verify_content(place.cache, record, rest)

    work = asyncio.ensure_future(run_to_completion(verify))
    try:
        verdict = await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        with contextlib.suppress(OSError):
            await work
        raise
    if verdict is None:
        raise CacheError("the look was ended")
    return verdict
