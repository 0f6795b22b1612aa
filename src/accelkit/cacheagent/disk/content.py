"""Content checks, which detect changes to caches in the store and protect caches against writes if possible.

Write-protected caches are checked once after each boot, because a power failure may have caused data loss. Other caches
are checked at regular intervals. The record of a cache contains the ID of the last boot during which the cache was
found to be unchanged.
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

RECHECK_SECONDS: Final = 600.0
# Checks have the lowest CPU priority, and read for at most a quarter of the time.
_NICENESS: Final = 19
_REST_SHARE: Final = 3.0
_LEAST_REST_SECONDS: Final = 0.05
# Maximum time to wait for the lock while another process updates a record.
_LOCK_SECONDS: Final = 10.0
_REPORTED_SECONDS: Final = 3600.0


class ContentChecks:
    """Content checks of all caches in a store.

    Args:
        store: cache store, which must be open.
        metrics: metrics of the agent.
        seconds: time between the end of one check of all caches and the start of the next check.
        on_change: callback that is called after a changed cache was deleted from the store.
    """

    def __init__(
        self, store: Store, metrics: Metrics, *, seconds: float = RECHECK_SECONDS, on_change: Callable[[], None]
    ) -> None:
        self._store, self._metrics, self._seconds, self._on_change = store, metrics, seconds, on_change
        self._errors: dict[str, ErrorReporter] = {}
        self._protection: Protection | None = None
        # Time at which a change was detected, and the message for reports, keyed by folder.
        self._changed: dict[str, tuple[float, str]] = {}

    @property
    def changed(self) -> dict[str, str]:
        """Message for each folder in which a change was detected within the last hour."""
        since = time.monotonic() - _REPORTED_SECONDS
        self._changed = {folder: found for folder, found in self._changed.items() if found[0] > since}
        return {folder: message for folder, (_, message) in self._changed.items()}

    async def run(self) -> None:
        """Check all caches at regular intervals until cancelled."""
        while True:
            await self.check_all()
            await asyncio.sleep(self._seconds)

    async def check_all(self) -> None:
        """Check all caches in the store sequentially."""
        await self._note_protection()
        for folder in sorted(self._store.stored):
            try:
                await self._check(folder)
            except (CacheError, OSError) as exc:
                if folder in self._store.stored:
                    reporter = self._errors.setdefault(folder, ErrorReporter(log))
                    reporter.report(str(exc), f"cannot check or protect the content of {folder}: {exc}")
            except Exception:
                # An error in one cache must not stop the agent.
                log.exception("content check failed with an internal error: folder=%s", folder)
            else:
                self._errors.pop(folder, None)
        self._errors = {folder: each for folder, each in self._errors.items() if folder in self._store.stored}

    async def _note_protection(self) -> None:
        found = await run_to_completion(partial(probe, self._store.root))
        if found != self._protection and found.state is not ProtectionState.PROTECTED:
            log.warning(
                "kernel caches are not protected against pods with writable mounts: reason=%s check_seconds=%.0f",
                found.message,
                self._seconds,
            )
        self._protection = found
        for state in ProtectionState:
            self._metrics.protection.labels(state.value).set(state is found.state)

    async def _check(self, folder: str) -> None:
        # The descriptor remains open, so that a new folder cannot have the same inode.
        opened = os.open(self._store.find_place(folder).folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            await self._check_opened(folder, opened)
        finally:
            os.close(opened)

    async def _check_opened(self, folder: str, opened: int) -> None:
        place = self._store.find_place(folder)
        record = read_record(place.folder)
        if record is None:
            return
        boot = read_boot_id() or ""
        protection = Protection(ProtectionState.PROTECTED)
        protected = await run_to_completion(partial(is_protected, place.cache))
        if protected and boot and record.boot == boot and record.content_digest:
            return
        if not protected and self._can_protect:
            # If the agent is killed before the verification, it verifies the cache after a restart.
            await self._renew(place, boot="")
            protection = await run_to_completion(partial(protect, place.cache))
        verdict = await _verify(place, record)
        if verdict.holds is False:
            await self._take_out(folder, opened, verdict)
        elif not verdict.holds or boot != record.boot or (not protected and self._can_protect):
            await self._renew(place, boot=boot, content_digest=verdict.digest)
        if protection.state is not ProtectionState.PROTECTED:
            raise CacheError(f"cannot protect the cache against writes: {protection.message}")

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
            f"at {at}, the files on this node differed from the extracted files ({verdict.difference}); the agent "
            "deleted the files, and extracts them again. Find the pods that mounted the claim as writable; pods that "
            "read the files may have executed code of another user"
        )
        self._changed[folder] = time.monotonic(), message
        self._metrics.content_changed.inc()
        log.error(Facts("cache content changed", folder=folder, difference=verdict.difference))
        self._on_change()


async def _verify(place: Place, record: CompletionRecord) -> ContentVerdict:
    """Verify a cache's content in a separate thread. The thread stops shortly after this coroutine is cancelled."""
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
        # On Linux, this changes only the priority of this thread.
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
        raise CacheError("the content check was cancelled")
    return verdict
