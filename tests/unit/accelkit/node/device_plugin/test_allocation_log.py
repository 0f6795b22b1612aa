import gc
import logging
import weakref

import pytest
from device_names import unit

from accelkit.errors import DevicePluginError
from accelkit.logs import Facts
from accelkit.model.assignment import Assignment
from accelkit.node.assigned_pod import AssignedPod
from accelkit.node.device_plugin.allocation_log import AllocationLog
from accelkit.node.devices import DeviceIds

POD = AssignedPod("uid-p", "d", "p", (0, "", "p"), ("c",), Assignment({}))


@pytest.fixture
def read_lines(caplog):
    """Return a function that returns the values of each line so far."""
    caplog.set_level(logging.INFO)
    return lambda: [{"event": each.msg.event, **each.msg.values} for each in caplog.records if type(each.msg) is Facts]


def note(log, key, device_ids, *, unit_bytes=4, event="allocated"):
    log.note(event, key, [POD], device_ids, ids=DeviceIds("ab"), unit_bytes=unit_bytes, seconds=0.25)


def test_an_allocation_is_logged_with_its_pod_cards_amounts_and_devices(read_lines):
    log = AllocationLog("r")
    note(log, ("uid-p", "c"), [unit("a", number) for number in (36, 9, 8)])
    assert read_lines() == [
        {
            "event": "allocated",
            "pod": "d/p",
            "uid": "uid-p",
            "container": "c",
            "resource": "r",
            "cards": {"a": 12},
            "devices": 3,
            "first_device": unit("a", 8),
            "seconds": 0.25,
        }
    ]


def test_whole_cards_and_unknown_containers_are_logged(read_lines):
    note(AllocationLog("r"), None, ["b", "a"], unit_bytes=None)
    (line,) = read_lines()
    assert (line["pod"], line["uid"], line["container"], line["cards"]) == (None, None, None, ["a", "b"])


def test_repeated_lines_are_logged_once(read_lines):
    log = AllocationLog("r")
    for event in ("offered", "offered", "allocated"):
        note(log, ("uid-p", "c"), [unit("a", 1)], event=event)
    note(log, ("uid-p", "c"), [unit("a", 2)])
    for _ in range(3):
        log.note_refusal([unit("a", 1)], DevicePluginError("card a would be over capacity"))
    log.note_refusal([unit("a", 1)], DevicePluginError("another"))
    events = [line["event"] for line in read_lines()]
    assert events == ["offered", "allocated", "allocated", *["allocation refused"] * 2]
    assert read_lines()[-2] == {
        "event": "allocation refused",
        "resource": "r",
        "devices": 1,
        "reason": "card a would be over capacity",
    }


class Name(str):
    """A device ID that a weak reference can observe."""

    __slots__ = ("__weakref__",)


def test_allocated_device_ids_are_not_kept(caplog):
    # pytest keeps each line that is written.
    caplog.set_level(logging.CRITICAL, "accelkit.node.device_plugin.allocation_log")
    log, device_id = AllocationLog("r"), Name(unit("a", 1))
    remembered = weakref.ref(device_id)
    note(log, ("uid-p", "c"), [device_id])
    del device_id
    gc.collect()
    assert remembered() is None
