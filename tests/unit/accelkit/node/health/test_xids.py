"""XIDs by NVML's own interface, of the stand-in library."""

import logging

import pynvml
import pytest
from standin_nvml import StandinCard
from support.waiting import poll_until

from accelkit.node.discovery.nvml import load_nvml
from accelkit.node.health import xids
from accelkit.node.health.xids import XidWatch

BDFS = ("0000:3b:00.0", "0000:5e:00.0")


@pytest.fixture
def driver(standin_nvml):
    standin_nvml.cards += [StandinCard(bdf, f"GPU-{n}", n) for n, bdf in enumerate(BDFS)]
    standin_nvml.write()
    return standin_nvml


@pytest.fixture
def watch(monkeypatch):
    """A watch that listens, and waits less long than in earnest."""
    monkeypatch.setattr(xids, "_WAIT_MILLISECONDS", 50)
    monkeypatch.setattr(xids, "_RETRY_SECONDS", 0.05)
    listening = []
    create = pynvml.nvmlEventSetWait_v2
    monkeypatch.setattr(pynvml, "nvmlEventSetWait_v2", lambda *arguments: listening.append(1) or create(*arguments))
    started = []

    def start(*, listens=True, load=load_nvml):
        started.append(XidWatch(load))
        started[0].start()
        if listens:
            poll_until(lambda: listening)
        return started[0]

    yield start
    started[0].stop()


def take(watch, number):
    found = {}

    def enough():
        for card, numbers in watch.take().items():
            found.setdefault(card, []).extend(numbers)
        return sum(map(len, found.values())) >= number

    poll_until(enough)
    return found


def hear(driver, watch, xid):
    """Report an XID of the first card until the watch has heard it."""

    def heard():
        driver.raise_xid(BDFS[0], xid)
        return watch.take()

    poll_until(heard)


def test_xids_are_returned_once_by_uuid_in_order(driver, watch):
    listening = watch()
    driver.raise_xid(BDFS[1], 48)
    driver.raise_xid(BDFS[0], 13)
    driver.raise_xid(BDFS[1], 79)
    assert take(listening, 3) == {"GPU-1": [48, 79], "GPU-0": [13]}
    assert listening.take() == {}


def test_xid_of_lost_card_without_readable_uuid_is_returned(driver, watch):
    listening = watch()
    driver.failures["nvmlDeviceGetUUID"] = pynvml.NVML_ERROR_GPU_IS_LOST
    driver.write()
    driver.raise_xid(BDFS[0], 79)
    assert take(listening, 1) == {"GPU-0": [79]}


def test_watch_resumes_after_driver_recovers(driver, watch, caplog):
    caplog.set_level("INFO")
    listening = watch()
    driver.failures["nvmlEventSetWait_v2"] = pynvml.NVML_ERROR_UNKNOWN
    driver.write()
    poll_until(lambda: "cannot collect errors of NVIDIA's cards: Unknown Error" in caplog.text)
    driver.failures.clear()
    driver.write()
    hear(driver, listening, 79)


@pytest.mark.parametrize("call", ["nvmlDeviceRegisterEvents", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID"])
def test_unwatchable_card_does_not_block_other_cards_and_is_retried(driver, watch, monkeypatch, caplog, call):
    asked = getattr(pynvml, call)
    refuses = True

    def answer(card, *arguments):
        number = card if isinstance(card, int) else pynvml.nvmlDeviceGetMinorNumber(card)
        if number == 0 and refuses:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return asked(card, *arguments)

    monkeypatch.setattr(pynvml, call, answer)
    listening = watch()
    driver.raise_xid(BDFS[1], 79)
    assert take(listening, 1) == {"GPU-1": [79]}
    refuses = False
    hear(driver, listening, 48)
    assert caplog.text.count("does not report XIDs: Not Supported") == 1


def test_library_is_closed_if_no_card_reports_xids(driver, watch, monkeypatch):
    ended = []
    shut_down = pynvml.nvmlShutdown
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: ended.append(1) or shut_down())
    driver.failures["nvmlDeviceRegisterEvents"] = pynvml.NVML_ERROR_NOT_SUPPORTED
    driver.write()
    watch(listens=False)
    poll_until(lambda: len(ended) > 1)


@pytest.mark.parametrize("call", ["nvmlEventSetWait_v2", "nvmlEventSetCreate"])
def test_unexpected_error_does_not_end_watch(driver, watch, monkeypatch, caplog, call):
    answer = getattr(pynvml, call)

    def fail(*_):
        monkeypatch.setattr(pynvml, call, answer)
        raise KeyError(call)

    monkeypatch.setattr(pynvml, call, fail)
    listening = watch(listens=False)
    hear(driver, listening, 79)
    assert f"KeyError: '{call}'" in caplog.text


def test_xid_of_unknown_card_is_logged(driver, watch, monkeypatch, caplog):
    listening = watch()
    wait = pynvml.nvmlEventSetWait_v2

    def report(*_):
        monkeypatch.setattr(pynvml, "nvmlEventSetWait_v2", wait)
        return pynvml.c_nvmlEventData_t(device=pynvml.c_nvmlDevice_t(), eventData=79)

    monkeypatch.setattr(pynvml, "nvmlEventSetWait_v2", report)
    poll_until(lambda: "an XID of an unknown card: xid=79" in caplog.text)
    driver.raise_xid(BDFS[0], 48)
    assert take(listening, 1) == {"GPU-0": [48]}


def test_action_of_xid_is_logged(driver, watch, caplog):
    caplog.set_level("INFO")
    listening = watch()
    driver.raise_xid(BDFS[0], 43)
    driver.raise_xid(BDFS[0], 64)
    take(listening, 2)
    assert [(record.levelno, record.message) for record in caplog.records if "XID" in record.message] == [
        (logging.INFO, "card GPU-0: the driver reported XID 43 (a program was stopped)"),
        (
            logging.WARNING,
            "card GPU-0: the driver reported XID 64 (a bad row of memory could not be replaced): replace the card",
        ),
    ]


def test_watch_starts_when_library_is_found_later(driver, watch):
    asked, listening = (
        [],
        watch(listens=False, load=lambda: asked.append(1) or (load_nvml() if len(asked) > 2 else None)),
    )
    hear(driver, listening, 79)
    assert len(asked) == 3


def test_watch_without_library_returns_no_xids(watch):
    listening = watch(listens=False, load=lambda: None)
    listening.stop()
    assert listening.take() == {}


def test_number_of_unread_xids_is_bounded(driver, watch):
    listening = watch()
    for number in range(200):
        driver.raise_xid(BDFS[0], 1000 + number)
    poll_until(lambda: listening._reports and listening._reports["GPU-0"][-1] == 1199)
    assert len(listening.take()["GPU-0"]) == 100
