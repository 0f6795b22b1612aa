from __future__ import annotations

import sys
from pathlib import Path

import grimp
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from select_tests import IntegrationTest, UnknownSelectionError, list_changed, read_tests, select

AGENT = IntegrationTest(
    "t/test_agent.py", frozenset({"t/test_agent.py", "t/bed.py"}), frozenset({"accelkit.agent"}), False
)
SITE = IntegrationTest("t/test_site.py", frozenset({"t/test_site.py"}), frozenset(), True)


@pytest.fixture
def graph():
    """`agent` imports `model.pod`, and `extender` nothing; `vendors.data` has no module."""
    graph = grimp.ImportGraph()
    for name in ("", ".agent", ".extender", ".model", ".model.pod", ".vendors"):
        graph.add_module(f"accelkit{name}")
    graph.add_import(importer="accelkit.agent", imported="accelkit.model.pod")
    graph.add_import(importer="accelkit.agent", imported="accelkit.vendors")
    return graph


@pytest.mark.parametrize(
    ("path", "selected"),
    [
        ("src/accelkit/agent.py", ["t/test_agent.py"]),
        ("src/accelkit/model/pod.py", ["t/test_agent.py"]),
        ("src/accelkit/extender.py", []),
        ("src/accelkit/vendors/data/gas.yaml", ["t/test_agent.py"]),
        ("src/accelkit/model/gone.py", ["t/test_agent.py"]),
        ("src/accelkit/gone.py", ["t/test_agent.py"]),
        ("t/bed.py", ["t/test_agent.py"]),
        ("t/test_site.py", ["t/test_site.py"]),
        ("roles/extender/tasks/main.yml", ["t/test_site.py"]),
        ("site.yml", ["t/test_site.py"]),
        ("docs/testing.md", []),
        ("tests/unit/test_x.py", []),
    ],
)
def test_a_change_selects_the_tests_that_cover_it(graph, path, selected):
    assert select([path], [AGENT, SITE], graph) == selected


@pytest.mark.parametrize("path", ["pyproject.toml", "Makefile", ".ci/run", "tests/conftest.py", "setup.cfg"])
def test_what_has_no_rule_selects_all(graph, path):
    with pytest.raises(UnknownSelectionError, match=path):
        select(["docs/x.md", path], [AGENT, SITE], graph)


def test_a_commit_of_another_history_selects_all():
    with pytest.raises(UnknownSelectionError, match="0000000 is no commit before this one"):
        list_changed("0000000")


def test_tests_of_this_repository_are_read_with_their_helpers_commands_and_playbooks():
    found = {Path(each.path).stem: each for each in read_tests()}
    watches = found["test_extender_watches"]
    assert {"tests/integration/extender_process.py", "tests/support/waiting.py"} <= watches.files
    assert "accelkit.extender.command" in watches.modules
    assert not watches.playbooks
    assert found["test_install"].playbooks
    assert {"accelkit.node.command", "accelkit.install.managed_resources"} <= found["test_install"].modules
    # By the fixture of conftest.py alone.
    assert found["test_pods"].playbooks
