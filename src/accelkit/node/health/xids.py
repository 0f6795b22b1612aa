"""Collector of the errors that NVIDIA's driver reports (XIDs), in a separate thread."""

from __future__ import annotations

import ctypes
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from accelkit.node.health.faults import explain_xid
from accelkit.reporting import OnceReporter
from accelkit.vendors.xids import find_xid

log = logging.getLogger(__name__)

_WAIT_MILLISECONDS = 2000
# The maximum number of XIDs that are stored for a card until `take` returns them.
_MAX_XIDS = 100
# The interval between two attempts. A driver or card that was removed usually reappears within minutes.
_RETRY_SECONDS = 60.0


class XidWatch:
    """Collector of XIDs, which registers for XIDs again after the driver is reloaded.

    Args:
        load: returns the module `pynvml`, or None if NVIDIA's library is missing.
    """

    def __init__(self, load: Callable[[], Any | None]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._reports: dict[str, deque[int]] = {}
        self._errors = OnceReporter(log)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread. If the library is missing, the thread retries, because a driver may be installed later."""
        self._thread = threading.Thread(target=self._run, name="xids", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2 * _WAIT_MILLISECONDS / 1000)

    def take(self) -> Mapping[str, Sequence[int]]:
        """Return the XIDs that were reported since the previous call, by UUID and in order."""
        with self._lock:
            reports, self._reports = self._reports, {}
        return reports

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._open()
            except Exception as exc:  # noqa: BLE001 - otherwise the thread would end without a message
                self._errors.report(repr(exc), "cannot collect errors of NVIDIA's cards", error=exc)
            self._stop.wait(_RETRY_SECONDS)

    def _open(self) -> None:
        nvml = self._load()
        if nvml is None:
            return
        try:
            nvml.nvmlInit()
            try:
                self._listen(nvml)
            finally:
                with suppress(nvml.NVMLError):
                    nvml.nvmlShutdown()
        except nvml.NVMLError as exc:
            self._errors.report(str(exc), f"cannot collect errors of NVIDIA's cards: {exc}")

    def _listen(self, nvml: Any) -> None:
        """Collect XIDs until the thread stops or no card is registered.

        Without registered cards, the session must be closed, because it keeps all cards open.
        """
        events = nvml.nvmlEventSetCreate()
        uuids: dict[int | None, str] = {}
        try:
            while not self._stop.is_set():
                self._register(nvml, events, uuids)
                if not uuids:
                    return
                self._collect(nvml, events, uuids)
        finally:
            with suppress(nvml.NVMLError):
                nvml.nvmlEventSetFree(events)

    def _register(self, nvml: Any, events: Any, uuids: dict[int | None, str]) -> None:
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                if _identify(handle) in uuids:
                    continue
                # Read the UUID now, because a lost card can no longer report it.
                uuid = nvml.nvmlDeviceGetUUID(handle)
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
            except nvml.NVMLError as exc:
                self._errors.report(f"{index} {exc}", f"NVIDIA's card {index} does not report XIDs: {exc}")
            else:
                uuids[_identify(handle)] = uuid.decode() if isinstance(uuid, bytes) else uuid

    def _collect(self, nvml: Any, events: Any, uuids: Mapping[int | None, str]) -> None:
        """Collect XIDs until it is time to check for more cards to register."""
        end = time.monotonic() + _RETRY_SECONDS
        while not self._stop.is_set() and time.monotonic() < end:
            try:
                event = nvml.nvmlEventSetWait_v2(events, _WAIT_MILLISECONDS)
            except nvml.NVMLError_Timeout:
                continue
            xid, card = int(event.eventData), uuids.get(_identify(event.device))
            if card is None:
                log.warning("NVIDIA's driver reported an XID of an unknown card: xid=%d", xid)
            else:
                self._note(card, xid)

    def _note(self, card: str, xid: int) -> None:
        log.log(logging.WARNING if find_xid(xid).action.harms else logging.INFO, "card %s: %s", card, explain_xid(xid))
        with self._lock:
            self._reports.setdefault(card, deque(maxlen=_MAX_XIDS)).append(xid)


def _identify(handle: Any) -> int | None:
    """Return the address to which a handle points, which identifies the card."""
    return ctypes.cast(handle, ctypes.c_void_p).value
