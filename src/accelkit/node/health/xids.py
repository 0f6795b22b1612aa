"""Collects the errors that NVIDIA's driver reports (XIDs), in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from accelkit.logs import ErrorReporter

log = logging.getLogger(__name__)

# Faults of the program, not of the card: illegal accesses, a program that was ended, a video decoder's bad stream.
_OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
_WAIT_MILLISECONDS = 2000
# A driver that was unloaded comes back within minutes, if it does.
_AGAIN_SECONDS = 60.0


class XidWatch:
    """Collects XIDs until they are asked for; listens again where the driver went and came back.

    Args:
        load: returns the module `pynvml`, or None where the library is not there.
    """

    def __init__(self, load: Callable[[], Any | None]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._reports: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to listen, where there is a library."""
        nvml = self._load()
        if nvml is not None:
            self._thread = threading.Thread(target=self._run, args=(nvml,), name="xids", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2 * _WAIT_MILLISECONDS / 1000)

    def take(self) -> Mapping[str, str]:
        """Return what was reported since the last call: a sentence by UUID."""
        with self._lock:
            reports, self._reports = self._reports, {}
        return reports

    def _run(self, nvml: Any) -> None:
        errors = ErrorReporter(log)
        while not self._stop.is_set():
            try:
                nvml.nvmlInit()
                try:
                    self._listen(nvml)
                finally:
                    with suppress(nvml.NVMLError):
                        nvml.nvmlShutdown()
            except nvml.NVMLError as exc:
                errors.report(str(exc), f"NVIDIA's driver reports no errors of cards: {exc}")
                self._stop.wait(_AGAIN_SECONDS)

    def _listen(self, nvml: Any) -> None:
        events = nvml.nvmlEventSetCreate()
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        while not self._stop.is_set():
            try:
                event = nvml.nvmlEventSetWait_v2(events, _WAIT_MILLISECONDS)
            except nvml.NVMLError_Timeout:
                continue
            self._note(int(event.eventData), nvml.nvmlDeviceGetUUID(event.device))

    def _note(self, xid: int, uuid: str | bytes) -> None:
        card = uuid.decode() if isinstance(uuid, bytes) else uuid
        if xid in _OF_PROGRAMS:
            log.info("card %s: XID %d, which is a program's", card, xid)
            return
        with self._lock:
            self._reports[card] = f"the driver reported XID {xid}"
