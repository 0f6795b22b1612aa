"""docs/installation.md quotes the messages of the code, word for word."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("src/accelkit", "plugins", "playbooks", "roles")
SUFFIXES = {".py", ".yml", ".yaml", ".j2"}
TEXT = (ROOT / "docs/installation.md").read_text()
MESSAGES = re.findall(r"^\| `([^`]+)` \| ", TEXT.partition("## Troubleshooting\n")[2], re.MULTILINE)


def read_words(path):
    """Return a file's text on one line, with the parts of its literals joined."""
    joined = re.sub(r"\"\s*\n\s*f?\"", "", path.read_text())
    return " ".join(joined.split())


WORDS = [read_words(path) for name in FOLDERS for path in (ROOT / name).rglob("*") if path.suffix in SUFFIXES]


def test_there_are_messages():
    assert len(MESSAGES) > 10


@pytest.mark.parametrize("message", MESSAGES)
def test_each_message_is_one_that_is_printed(message):
    parts = [re.escape(part.strip()) for part in message.split("…") if part.strip()]
    # What stands between is a variable, and short.
    assert any(re.search(r".{1,120}?".join(parts), words) for words in WORDS), f"nothing prints {message}"
