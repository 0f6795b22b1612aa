"""Each reason has one meaning, a next action, a place in docs/reference/stage-reasons.md, and code that gives it."""

import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest

from accelkit.enablement.drivers.reasons import NEXT_ACTIONS as OF_DRIVERS
from accelkit.enablement.ownership.reasons import NEXT_ACTIONS as OF_OWNERS
from accelkit.enablement.partitioning.reasons import NEXT_ACTIONS as OF_PARTITIONS
from accelkit.enablement.reasons import NEXT_ACTIONS, StageReason
from accelkit.enablement.work.reasons import NEXT_ACTIONS as OF_WORK
from accelkit.model.stage import MAX_EVIDENCE

ROOT = Path(__file__).parents[5]
PAGE = (ROOT / "docs/reference/stage-reasons.md").read_text()
ROOMS = {"drivers": OF_DRIVERS, "ownership": OF_OWNERS, "partitioning": OF_PARTITIONS, "work": OF_WORK}
TYPES = {"DriverReason", "OwnershipReason", "PartitionReason", "WorkReason"}
SOURCES = "".join(path.read_text() for path in (ROOT / "src/accelkit").rglob("*.py") if path.name != "reasons.py")
PLUGINS = "".join(
    path.read_text()
    for room in ("plugins", "roles")
    for path in (ROOT / room).rglob("*")
    if path.suffix in {".py", ".yml"}
)


def list_explained():
    """The codes that the page explains: its headings, and the first cells of its tables."""
    cells = re.findall(r"^\| (`.*?`) \|", PAGE, re.MULTILINE)
    return re.findall(r"^### (.*)$", PAGE, re.MULTILINE) + [
        code for cell in cells for code in re.findall(r"`(\w+)`", cell)
    ]


def test_documentation_explains_each_reason_exactly_once():
    known = {*(reason.value for reason in StageReason), *(code for room in ROOMS.values() for code in room)}
    assert Counter(list_explained()) == Counter(known)


# Two rooms tell of these, and mean one thing by each. Who adds one has made sure that it is the same.
SHARED = {
    "CardUnhealthy",
    "CardsUnknown",
    "DriverMissing",
    "DriverVersionUnknown",
    "KernelDriverMismatch",
    "NeedNotPassed",
    "NeverChecked",
    "NodeMissing",
    "NodeNotReady",
    "NotAdvertised",
    "NothingAllocatable",
    "RecordUnreadable",
    "StateChanged",
}


def test_only_shared_reasons_appear_in_several_lists():
    lists = [{reason.value for reason in StageReason}, *(set(room) for room in ROOMS.values())]
    counts = Counter(code for codes in lists for code in codes)
    assert {code for code, count in counts.items() if count > 1} == SHARED


def test_stages_and_checks_share_next_actions_of_common_reasons():
    assert {OF_WORK[reason] == NEXT_ACTIONS[reason] for reason in ("NeverChecked", "RecordUnreadable")} == {True}


def test_each_reason_has_next_action():
    assert NEXT_ACTIONS.keys() == set(StageReason)
    for text in NEXT_ACTIONS.values():
        assert 0 < len(text.format(node="n" * 63, namespace="accelkit")) <= MAX_EVIDENCE
    assert all(0 < len(text) <= MAX_EVIDENCE for room in ROOMS.values() for text in room.values())


@pytest.mark.parametrize("reason", StageReason)
def test_each_stage_reason_is_camel_case_and_used(reason):
    assert re.fullmatch(r"(?:[A-Z][a-z0-9]+)+", reason.value)
    assert f"StageReason.{reason.name}" in SOURCES or f'"{reason.value}"' in SOURCES


@pytest.mark.parametrize("room", ROOMS)
def test_each_reason_of_package_is_used(room):
    module = import_module(f"accelkit.enablement.{room}.reasons")
    (known,) = (value for name, value in vars(module).items() if name in TYPES)
    assert set(get_args(known)) == ROOMS[room].keys()
    words = set(re.findall(r"\w+", SOURCES + PLUGINS))
    assert {code for code in ROOMS[room] if code not in words} == set()
