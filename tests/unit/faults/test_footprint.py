"""The footprint of processes must not grow once they are warm."""

import os
from dataclasses import replace

import pytest
from faults.footprint import MOST_DESCRIPTORS, MOST_MIB, MOST_WATCHES, Footprint, Footprints, read_footprint

WARM = Footprint(pid=7, mib=90, descriptors=30, watches=3)


def compare(*footprints):
    footprints_of_all, violations = Footprints(), []
    for each in footprints:
        violations += footprints_of_all.compare({"agents-0": each})
        footprints_of_all.add({"agents-0": each})
    return violations


def test_stable_footprint_after_warm_up_is_not_a_violation():
    assert compare(replace(WARM, mib=10), WARM, WARM, replace(WARM, mib=90 + MOST_MIB)) == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"mib": 91 + MOST_MIB}, "memory"),
        ({"descriptors": 31 + MOST_DESCRIPTORS}, "descriptors"),
        ({"watches": 4 + MOST_WATCHES}, "watches"),
    ],
)
def test_growing_footprint_is_a_violation(change, word):
    (found,) = compare(WARM, WARM, replace(WARM, **change))
    assert found.kind == "footprint_grows"
    assert word in found.detail


def test_restarted_process_has_new_baseline():
    assert compare(WARM, WARM, replace(WARM, pid=8, mib=500), replace(WARM, pid=8, mib=500)) == []


def test_read_footprint_returns_memory_and_descriptors_of_process():
    own = read_footprint(os.getpid(), 5)
    assert own.mib > 1
    assert own.descriptors > 2
    assert own.watches == 5
    assert read_footprint(2**22 + 1, 0) is None
