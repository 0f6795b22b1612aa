import json

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from accelkit.cli import main

GOOD = """
ACCELKIT_INTERFACE = 1
def rank_card(card, node, request): return card.free_bytes
def score_node(node, most): return most
"""
SOURCE = """
from accelkit.node.discovery.card_sources import CardSource
ACCELKIT_INTERFACE = 1
class Acme(CardSource): pass
"""


def run(*arguments):
    done = CliRunner().invoke(main, ["plugins", *arguments])
    assert done.exit_code in (0, 1), done.output
    return done.exit_code, done.output


def test_command_lists_plugins_with_their_distribution(site):
    site.install(
        "acme",
        "1.2",
        files={"acme.py": GOOD, "acme_source.py": SOURCE},
        policies="tight = acme",
        memory_sources="acme = acme_source:Acme",
    )
    code, text = run("-o", "json")
    assert code == 0
    rest = {"distribution": "acme", "version": "1.2", "problem": "", "next_step": ""}
    assert json.loads(text) == [
        {"group": "accelkit.policies", "name": "tight", **rest},
        {"group": "accelkit.memory_sources", "name": "acme", **rest},
    ]
    assert YAML(typ="safe").load(run("-o", "yaml")[1]) == json.loads(text)
    rows = [line.split() for line in run()[1].splitlines()]
    assert rows == [
        ["GROUP", "NAME", "DISTRIBUTION", "VERSION", "STATE"],
        ["accelkit.policies", "tight", "acme", "1.2", "ok"],
        ["accelkit.memory_sources", "acme", "acme", "1.2", "ok"],
    ]


def test_table_reports_that_no_plugins_are_installed(site):
    code, text = run()
    assert (code, json.loads(run("-o", "json")[1])) == (0, [])
    assert "no plug-ins of other distributions are installed" in text


def profile(source):
    return (
        "ACCELKIT_INTERFACE = 1\n"
        "def read(): return {'presence_labels': [], 'environment': {}, 'card_nodes': [], 'node_nodes': [], 'discovery':"
        f" {{'kind': 'pci', 'vendor': 'f00d', 'classes': ['1200'], 'memory': [{{'from': {source!r}}}]}}}}\n"
    )


@pytest.mark.parametrize(
    ("group", "name", "code", "problem"),
    [
        ("policies", "binpack", GOOD, "is defined in accelkit"),
        ("policies", "tight", GOOD.replace("1", "2"), "was written for interface 2"),
        ("dialects", "native", GOOD, "is defined in accelkit"),
        ("dialects", "acme", GOOD, "cannot be read: TypeError"),
        ("memory_sources", "nvml", SOURCE, "is defined in accelkit"),
        ("memory_sources", "acme", GOOD, "is not a subclass"),
        ("profiles", "nvidia", profile("table"), "is defined in accelkit"),
        ("profiles", "acme", "import nothing_of_this_name", "cannot be loaded: ModuleNotFoundError"),
        ("profiles", "acme", profile("umbra"), "refers to memory sources that are not installed: umbra"),
    ],
)
def test_command_reports_broken_plugin_and_lists_valid_plugins(site, group, name, code, problem):
    reference = "acme:read" if group == "profiles" else "acme"
    site.install("acme", files={"acme.py": code}, **{group: f"{name} = {reference}"})
    site.install("well", files={"well.py": GOOD}, policies="well = well")
    exit_code, text = run("-o", "json")
    found = {each["name"]: each for each in json.loads(text)}
    assert exit_code == 1
    assert problem in found[name]["problem"]
    assert "acme 1.0" in found[name]["problem"]
    assert "uninstall" in found[name]["next_step"]
    assert found["well"]["problem"] == ""
    assert problem in run()[1]


def test_command_succeeds_for_profile_with_known_source(site):
    site.install("acme", files={"acme.py": profile("table")}, profiles="acme = acme:read")
    assert run()[0] == 0
