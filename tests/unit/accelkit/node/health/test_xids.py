from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from accelkit.node.health.xids import XidWatch


class NvmlError(Exception):
    pass


class NvmlTimeoutError(NvmlError):
    pass


class Nvml:
    """The part of pynvml that is used, with events to come."""

    NVMLError, NVMLError_Timeout = NvmlError, NvmlTimeoutError
    nvmlEventTypeXidCriticalError = 8  # noqa: N815 - the same

    def __init__(self, *events, supported=True):
        self.events = list(events)
        self.supported = supported
        self.all_told = threading.Event()
        self.open = 0

    def nvmlInit(self):  # noqa: N802 - NVML's name
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802 - NVML's name
        self.open -= 1

    def nvmlEventSetCreate(self):  # noqa: N802 - NVML's name
        return object()

    def nvmlDeviceGetCount(self):  # noqa: N802 - NVML's name
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802 - NVML's name
        return f"GPU-{index}"

    def nvmlDeviceRegisterEvents(self, _handle, _kind, _set):  # noqa: N802 - NVML's name
        if not self.supported:
            raise NvmlError("not supported")

    def nvmlEventSetWait_v2(self, _set, _milliseconds):  # noqa: N802 - NVML's name
        if not self.events:
            self.all_told.set()
            threading.Event().wait(0.01)
            raise NvmlTimeoutError
        device, xid = self.events.pop(0)
        return SimpleNamespace(device=device, eventData=xid)

    def nvmlDeviceGetUUID(self, device):  # noqa: N802 - NVML's name
        return device


def taken(nvml):
    watch = XidWatch(lambda: nvml)
    watch.start()
    assert not nvml.supported or nvml.all_told.wait(10)
    reports = watch.take()
    watch.stop()
    assert (watch.take(), nvml.open) == ({}, 0)
    return reports


def test_an_xid_of_the_card_is_told_once_by_uuid():
    assert taken(Nvml(("GPU-1", 79))) == {"GPU-1": "the driver reported XID 79"}


@pytest.mark.parametrize("xid", [13, 31, 43, 45, 68, 109])
def test_an_xid_of_a_program_is_none_of_the_cards(xid):
    assert taken(Nvml(("GPU-0", xid))) == {}


@pytest.mark.parametrize("xid", [48, 63, 64, 74, 79, 94, 95, 119])
def test_every_other_xid_is_one_of_the_card(xid):
    assert taken(Nvml(("GPU-0", xid))) == {"GPU-0": f"the driver reported XID {xid}"}


def test_without_the_library_there_is_nothing_to_wait_for():
    watch = XidWatch(lambda: None)
    watch.start()
    watch.stop()
    assert watch.take() == {}


def test_a_driver_that_reports_nothing_is_no_error():
    assert taken(Nvml(supported=False)) == {}
