from __future__ import annotations

import re
from pathlib import Path

from accelkit.enablement.work import reasons
from accelkit.enablement.work.reasons import REASONS
from accelkit.model.stage import MAX_EVIDENCE

ROOT = Path(__file__).parents[5]
ROOM = Path(reasons.__file__).parent


def test_each_reason_stands_in_its_page_and_has_a_next_action():
    page = (ROOT / "docs/stage-checks.md").read_text()
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == set(REASONS)
    assert all(0 < len(action) <= MAX_EVIDENCE for action in REASONS.values())


def test_each_reason_is_given_somewhere_and_each_that_is_given_is_known():
    text = "".join(path.read_text() for path in ROOM.rglob("*.py") if path.name != "reasons.py")
    given = set(re.findall(r'"([A-Z][A-Za-z]+)"', text))
    assert set(REASONS) <= given
    called = re.findall(r'(?:failed|unknown|WorkError)\(\s*"(\w+)"', text)
    assert set(called) <= set(REASONS)
