"""Errors that NVIDIA's driver reports (XIDs), waited for in a thread of their own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

log = logging.getLogger(__name__)

# Faults of the program, not of the card: illegal accesses, a program that was ended, a video decoder's bad stream.
_OF_PROGRAMS = frozenset({13, 31, 43, 45, 68, 109})
_WAIT_MILLISECONDS = 2000


class XidWatch:
    """Collects XIDs until they are asked for.

    Args:
        nvml: the module `pynvml`, or what speaks like it, already initialised.
    """

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._lock = threading.Lock()
        self._reports: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to listen for all cards that can report; a driver that cannot is said once."""
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
            for index in range(nvml.nvmlDeviceGetCount()):
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError as exc:
            log.warning("NVIDIA's driver reports no errors of cards: %s", exc)
            return
        self._thread = threading.Thread(target=self._listen, args=(events,), name="xids", daemon=True)
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

    def _listen(self, events: Any) -> None:
        nvml = self._nvml
        while not self._stop.is_set():
            try:
                event = nvml.nvmlEventSetWait_v2(events, _WAIT_MILLISECONDS)
                xid = int(event.eventData)
                uuid = nvml.nvmlDeviceGetUUID(event.device)
            except nvml.NVMLError_Timeout:
                continue
            except nvml.NVMLError as exc:
                log.warning("NVIDIA's driver cannot be listened to any more: %s", exc)
                return
            if xid in _OF_PROGRAMS:
                log.info("card %s: XID %d, which is a program's", uuid, xid)
                continue
            with self._lock:
                self._reports[uuid if isinstance(uuid, str) else uuid.decode()] = f"the driver reported XID {xid}"
