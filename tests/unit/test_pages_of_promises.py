"""Pages that promise something name the tests that hold it, and what there is."""

import re
from pathlib import Path

import msgspec
import pytest

from accelkit.gkm import objects
from accelkit.gkm.conditions import ConditionType, Reason

ROOT = Path(__file__).parents[2]
ENABLEMENT = (ROOT / "docs/reference/enablement.md").read_text().partition("## What is promised")[2]
API = (ROOT / "docs/reference/kernel-cache-api.md").read_text()
DEFECTS = (ROOT / "docs/explanation/kernel-cache-defects.md").read_text()
# What both say by themselves of a condition that holds.
PLAIN = {"Resolved", "Verified", "Compatible", "Extracted", "Ready"}


@pytest.mark.parametrize(("page", "least"), [(ENABLEMENT, 20), (DEFECTS, 50)], ids=["enablement", "defects"])
def test_tests_named_on_pages_exist(page, least):
    files = list((ROOT / "tests").rglob("test_*.py"))
    there = {name for each in files for name in re.findall(r"def (test_\w+)\(", each.read_text())}
    named = set(re.findall(r"`(test_\w+(?:\.py)?)`", page))
    assert len(named) > least
    assert named - there - {each.name for each in files} == set()


def test_each_enablement_promise_names_test_or_is_marked_open():
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", ENABLEMENT, re.MULTILINE)[2:]
    assert len(rows) > 15
    assert [promise for promise, test in rows if "`" not in test and "open" not in test] == []


def test_all_cache_conditions_reasons_and_fields_are_documented():
    rows = {
        each for line in API.splitlines() if line.startswith("|") for each in re.findall(r"\w+", line.split("|")[1])
    }
    assert {each.value for each in ConditionType} <= rows
    assert {each.value for each in Reason} - PLAIN <= rows
    structs = (objects.CacheSpec, objects.CacheStatus, objects.NodeStatus, objects.NodeCacheStatus)
    fields = {field.encode_name for each in structs for field in msgspec.structs.fields(each)}
    assert fields <= set(re.findall(r"\w+", API))
