"""README.md stays short, and the indexes list each page, command and playbook once."""

import re
from collections import Counter
from pathlib import Path

import pytest

from accelkit.cli import SERVICES, USER_COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
INDEX = (ROOT / "docs/index.md").read_text()
MAX_LINES = 120
# Parts of site.yml, and the reading of inventories that all playbooks import.
INNER_PLAYBOOKS = {"cluster.yml", "images.yml", "site.yml"}
SIX_COMMANDS = {"site.yml", "playbooks/verify.yml", "playbooks/remove.yml", "inspect", "explain", "audit"}


def test_readme_is_short():
    assert len(README.splitlines()) <= MAX_LINES


def test_readme_contains_commands_for_new_users():
    assert {name for name in SIX_COMMANDS if name not in README} == set()


@pytest.mark.parametrize("folder", ["tutorials", "how-to", "reference", "explanation"])
def test_each_folder_has_an_index_of_its_pages(folder):
    place = ROOT / "docs" / folder
    counts = Counter(re.findall(r"\]\(([\w-]+\.md)\)", (place / "README.md").read_text()))
    assert counts == dict.fromkeys({path.name for path in place.glob("*.md")} - {"README.md"}, 1)
    assert f"({folder}/README.md)" in INDEX


def test_each_page_is_in_a_folder_by_purpose():
    assert [path.name for path in (ROOT / "docs").glob("*.md")] == ["index.md"]


def test_index_lists_each_command_once():
    users, _, services = INDEX.partition("| service in the cluster |")
    assert sorted(re.findall(r"^\| `accelkit ([\w-]+)` \|", users, re.MULTILINE)) == list(USER_COMMANDS)
    assert sorted(re.findall(r"^\| `accelkit ([\w-]+)` \|", services, re.MULTILINE)) == list(SERVICES)


def test_index_lists_each_playbook_once():
    named = re.findall(r"^\| `playbooks/([\w]+\.yml)` \|", INDEX, re.MULTILINE)
    assert sorted(named) == sorted({path.name for path in (ROOT / "playbooks").glob("*.yml")} - INNER_PLAYBOOKS)


def test_index_names_targets_of_make():
    targets = set(re.findall(r"^([\w-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([\w-]+)`", INDEX)) <= targets
