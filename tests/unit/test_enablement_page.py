"""The tests that docs/enablement.md names for its promises are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/enablement.md").read_text().partition("## What is promised")[2]


def test_the_tests_that_hold_the_promises_are_there():
    files = {path.name: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    # Some names are used in several folders.
    text = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"`(test_\w+(?:\.py)?)`", PAGE)
    assert len(named) > 20
    assert [name for name in named if name not in files and f"def {name}(" not in text] == []


def test_each_promise_has_a_test_or_says_that_it_has_none():
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)[2:]
    assert len(rows) > 15
    assert [promise for promise, test in rows if "`" not in test and "open" not in test] == []
