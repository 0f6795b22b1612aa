"""Every reason has a next action, a heading in docs/stage-reasons.md, and somebody who gives it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accelkit.enablement.reasons import NEXT_ACTIONS, StageReason
from accelkit.model.stage import MAX_EVIDENCE

ROOT = Path(__file__).parents[5]
PAGE = (ROOT / "docs/stage-reasons.md").read_text()
SOURCES = "".join(path.read_text() for path in (ROOT / "src/accelkit").rglob("*.py") if path.name != "reasons.py")


def test_the_page_has_a_heading_for_each_reason_and_no_other():
    assert re.findall(r"^### (.*)$", PAGE, re.MULTILINE) == [reason.value for reason in StageReason]


def test_each_reason_has_a_next_action():
    assert NEXT_ACTIONS.keys() == set(StageReason)
    for text in NEXT_ACTIONS.values():
        assert 0 < len(text.format(node="n" * 63, namespace="accelkit")) <= MAX_EVIDENCE


@pytest.mark.parametrize("reason", StageReason)
def test_each_reason_is_camel_case_and_given_by_somebody(reason):
    assert re.fullmatch(r"(?:[A-Z][a-z0-9]+)+", reason.value)
    assert f"StageReason.{reason.name}" in SOURCES or f'"{reason.value}"' in SOURCES


def test_links_of_the_page_lead_somewhere():
    for target in re.findall(r"\]\((?!\w+:)([^)\s#]+)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
