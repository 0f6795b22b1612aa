"""docs/reference/commands.md is what scripts/command_reference.py generates."""

import sys
from pathlib import Path

import pytest

from accelkit.cli import SERVICES, USER_COMMANDS

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from command_reference import PAGE, build_page, list_help_texts

TEXTS = dict(list_help_texts())


def test_command_reference_is_up_to_date():
    assert PAGE.read_text() == build_page(), "run: python scripts/command_reference.py"


@pytest.mark.parametrize("name", [*USER_COMMANDS, *SERVICES])
def test_each_command_has_a_section(name):
    assert f"accelkit {name}" in TEXTS


def test_commands_of_groups_have_sections():
    assert {"accelkit cache verify", "accelkit sandbox up", "accelkit examples deploy"} <= TEXTS.keys()


def test_help_does_not_depend_on_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert dict(list_help_texts()) == TEXTS
