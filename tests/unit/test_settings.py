"""The playbooks' settings: all that are read are specified, and all that are specified are documented and read."""

import re
from pathlib import Path

import pytest
from support.yaml import read_yaml

from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import list_own_dialect_names

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"(?<![\w/])accelkit_[a-z0-9_]+")
# Groups of the inventory.
GROUPS = {"accelkit_api", "accelkit_control_plane", "accelkit_nodes"}
# Prometheus reads these: what begins so there are metrics.
RULES = {ROOT / "roles/monitoring" / name for name in ("files/rules.yml", "vars/main.yml")}
FOLDERS = ("playbooks", "roles", "inventories", "extensions", "awx")


FILE = read_yaml(ROOT / "playbooks/vars/settings.yml")
SETTINGS = FILE["__accelkit_settings"]


def names_in(*paths):
    return {name for path in paths for name in NAME.findall(path.read_text())} - GROUPS


def files(*folders):
    found = [path for name in folders for path in (ROOT / name).rglob("*") if path.suffix in (".yml", ".j2", ".md")]
    return [path for path in found if path not in RULES]


def test_each_setting_in_playbooks_is_specified():
    assert names_in(*files(*FOLDERS)) - SETTINGS.keys() == set()


@pytest.mark.parametrize("name", SETTINGS)
def test_each_setting_is_read_and_documented(name):
    readers = [path for path in files("playbooks", "roles") if path.name != "settings.yml"]
    assert name in names_in(*readers)
    assert name in names_in(*(ROOT / "docs").glob("*/*.md"), *(ROOT / "playbooks").glob("*.yml"))


def test_choices_of_settings_match_dialects_and_policies():
    assert sorted(FILE["__accelkit_own_dialects"]) == sorted(list_own_dialect_names())
    assert sorted(FILE["__accelkit_own_policies"]) == sorted(Policy)


def plays():
    for path in (ROOT / "playbooks").glob("*.yml"):
        for play in read_yaml(path):
            yield path.name, play


def test_plays_do_not_override_role_variables_or_settings():
    of_roles = {name for role in (ROOT / "roles").iterdir() for name in read_yaml(role / "defaults/main.yml")}
    outranked = [
        (file, name)
        for file, play in plays()
        for source in [play, *map(read_yaml, (ROOT / "playbooks/vars").glob("*.yml"))]
        for name in (source.get("vars", {}) if source is play else source)
        if name in of_roles | SETTINGS.keys()
    ]
    # The bundle's image has no registry's name, since the nodes would look for it there.
    assert outranked == [("bundle.yml", "images_registry")]
