"""A driver that is installed under a running agent is listened to when it is there."""

from __future__ import annotations

import ctypes
import threading
from types import SimpleNamespace

from accelkit.node.health import xids
from accelkit.node.health.xids import XidWatch


class NvmlError(Exception):
    pass


class NvmlTimeoutError(NvmlError):
    pass


def test_a_library_that_comes_later_is_listened_to(monkeypatch):
    monkeypatch.setattr(xids, "_AGAIN_SECONDS", 0.01)
    listening, asked = threading.Event(), []

    def wait(*_):
        listening.set()
        threading.Event().wait(0.01)
        raise NvmlTimeoutError

    nvml = SimpleNamespace(
        NVMLError=NvmlError,
        NVMLError_Timeout=NvmlTimeoutError,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlEventSetCreate=object,
        nvmlEventSetFree=lambda _events: None,
        nvmlEventTypeXidCriticalError=8,
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda _index: ctypes.c_void_p(1),
        nvmlDeviceGetUUID=lambda _handle: "GPU-0",
        nvmlDeviceRegisterEvents=lambda *_: None,
        nvmlEventSetWait_v2=wait,
    )
    watch = XidWatch(lambda: asked.append(1) or (nvml if len(asked) > 2 else None))
    watch.start()
    assert listening.wait(60)
    watch.stop()
    assert len(asked) == 3
