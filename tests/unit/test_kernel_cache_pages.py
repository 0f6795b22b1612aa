"""The pages of the kernel caches' API name what is there, and the tests that they name are there."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from accelkit.gkm import objects
from accelkit.gkm.conditions import ConditionType, Reason

ROOT = Path(__file__).parents[2]
API = (ROOT / "docs/kernel-cache-api.md").read_text()
DEFECTS = (ROOT / "docs/kernel-cache-defects.md").read_text()
# What both say by themselves of a condition that holds.
PLAIN = {"Resolved", "Verified", "Compatible", "Extracted", "Ready"}


def test_every_condition_and_every_reason_is_explained():
    rows = {
        each for line in API.splitlines() if line.startswith("|") for each in re.findall(r"\w+", line.split("|")[1])
    }
    assert {each.value for each in ConditionType} <= rows
    assert {each.value for each in Reason} - PLAIN <= rows


@pytest.mark.parametrize(
    "struct", [objects.CacheSpec, objects.CacheStatus, objects.NodeStatus, objects.NodeCacheStatus]
)
def test_every_field_is_explained(struct):
    fields = {each.encode_name for each in msgspec.structs.fields(struct)}
    assert fields <= set(re.findall(r"\w+", API))


def test_the_tests_that_show_a_defect_is_not_ours_are_there():
    named = set(re.findall(r"`(test_\w+)`", DEFECTS))
    texts = [each.read_text() for each in (ROOT / "tests").rglob("test_*.py")]
    there = {name for text in texts for name in re.findall(r"def (test_\w+)\(", text)}
    assert len(named) > 50
    assert named - there == set()
