import sys
from pathlib import Path

import grimp
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import subprocess

import select_tests
from select_tests import IntegrationTest, UnknownSelectionError, find_base, list_changed, main, read_tests, select

AGENT = IntegrationTest(
    "t/test_agent.py", frozenset({"t/test_agent.py", "t/bed.py"}), frozenset({"accelkit.agent"}), False
)
SITE = IntegrationTest("t/test_site.py", frozenset({"t/test_site.py"}), frozenset(), True)
SPEED = IntegrationTest("t/test_speed.py", frozenset({"t/test_speed.py"}), frozenset(), False, benchmarks=True)


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
        ("bench/run_all.py", ["t/test_speed.py"]),
        ("docs/how-to/testing.md", []),
        ("tests/unit/test_x.py", []),
    ],
)
def test_changed_file_selects_tests_that_cover_file(graph, path, selected):
    assert select([path], [AGENT, SITE, SPEED], graph) == selected


@pytest.mark.parametrize("path", ["pyproject.toml", "Makefile", ".ci/run", "tests/conftest.py", "setup.cfg"])
def test_change_of_file_without_rule_selects_all_tests(graph, path):
    with pytest.raises(UnknownSelectionError, match=path):
        select(["docs/x.md", path], [AGENT, SITE], graph)


def test_base_commit_outside_history_selects_all_tests():
    with pytest.raises(UnknownSelectionError, match="0000000 is not a commit before this one"):
        list_changed("0000000")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository of one commit on main; `git` runs a command there."""
    monkeypatch.delenv("CI_MERGE_BASE", raising=False)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.org")

    def git(*arguments, folder=tmp_path / "one"):
        done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    git("init", "--quiet", "--initial-branch", "main", str(tmp_path / "one"), folder=tmp_path)
    git("commit", "--quiet", "--allow-empty", "--message", "first")
    return tmp_path / "one", git


def test_base_is_merge_base_of_branch_with_main(repository):
    folder, git = repository
    first = git("rev-parse", "HEAD")
    git("switch", "--quiet", "--create", "change")
    git("commit", "--quiet", "--allow-empty", "--message", "second")
    assert find_base(folder) == first


def test_base_in_clone_is_merge_base_with_main_of_origin(repository):
    folder, git = repository
    clone = folder.with_name("two")
    git("clone", "--quiet", str(folder), str(clone))
    git("commit", "--quiet", "--allow-empty", "--message", "second", folder=clone)
    assert find_base(clone) == git("rev-parse", "HEAD")


def test_base_on_main_branch_is_unknown_unless_given(repository, monkeypatch, capsys):
    folder, git = repository
    git("commit", "--quiet", "--allow-empty", "--message", "second")
    with pytest.raises(UnknownSelectionError, match="set CI_MERGE_BASE or SINCE to a commit"):
        find_base(folder)
    monkeypatch.setenv("CI_MERGE_BASE", "HEAD~1")
    assert find_base(folder) == "HEAD~1"


def test_committed_uncommitted_and_untracked_changes_are_listed(repository):
    folder, git = repository
    (folder / "old").touch()
    (folder / "gone").touch()
    git("add", ".")
    git("commit", "--quiet", "--message", "second")
    (folder / "committed").touch()
    git("rm", "--quiet", "gone")
    git("add", ".")
    git("commit", "--quiet", "--message", "third")
    (folder / "old").write_text("changed")
    (folder / "untracked").touch()
    assert sorted(list_changed("HEAD~1", folder)) == ["committed", "gone", "old", "untracked"]


def test_unknown_base_selects_all_tests(monkeypatch, capsys):
    monkeypatch.setattr(select_tests, "MAIN_BRANCHES", ())
    monkeypatch.delenv("CI_MERGE_BASE", raising=False)
    monkeypatch.setattr(sys, "argv", ["select_tests.py"])
    assert main() == 0
    assert capsys.readouterr().out == "all\n"


def test_tests_are_read_with_helpers_commands_and_playbooks():
    found = {Path(each.path).stem: each for each in read_tests()}
    watches = found["test_extender_watches"]
    assert {"tests/integration/extender_process.py", "tests/support/waiting.py"} <= watches.files
    assert "accelkit.extender.command" in watches.modules
    assert not watches.playbooks
    assert found["test_install"].playbooks
    assert {"accelkit.node.command", "accelkit.install.managed_resources"} <= found["test_install"].modules
    assert [each.path for each in found.values() if each.benchmarks] == ["tests/integration/test_benchmarks.py"]
    # By the fixture of conftest.py alone.
    assert found["test_pods"].playbooks
