from __future__ import annotations

import re
from pathlib import Path

from accelkit.enablement.work import reasons
from accelkit.enablement.work.reasons import REASONS

ROOM = Path(reasons.__file__).parent


def test_each_reason_is_given_somewhere_and_each_that_is_given_is_known():
    text = "".join(path.read_text() for path in ROOM.rglob("*.py") if path.name != "reasons.py")
    given = set(re.findall(r'"([A-Z][A-Za-z]+)"', text))
    assert set(REASONS) <= given
    called = re.findall(r'(?:failed|unknown|WorkError)\(\s*"(\w+)"', text)
    assert set(called) <= set(REASONS)
