import ast
import json
from pathlib import Path

import pytest
from support.quarantine import LIST, MOST, read_entries

TESTS = Path(__file__).parents[1]
SOURCE = """
import pytest
pytestmark = pytest.mark.xdist_group("one")
def test_unlucky(): assert False
def test_lucky(): pass
@pytest.fixture
def broken(): raise OSError
def test_without_a_start(broken): pass
"""
CONFTEST = """
import datetime, pytest
from support.quarantine import Entry, Quarantine
names = ("unlucky", "lucky", "without_a_start")
entries = [Entry(f"test_file.py::test_{name}", datetime.date(2026, 1, 2), "a race") for name in names]
def pytest_configure(config): config.pluginmanager.register(Quarantine(entries), "quarantine")
"""
RESULTS = [
    "failed: test_file.py::test_unlucky (since 2026-01-02: a race)",
    "passed: test_file.py::test_lucky (since 2026-01-02: a race)",
    "failed: test_file.py::test_without_a_start (since 2026-01-02: a race)",
]
ENTRY = '[[tests]]\nid = "tests/unit/test_x.py::test_y"\nsince = 2026-01-02\nreason = "a race"\n'


def test_quarantined_tests_of_repository_exist():
    entries = read_entries()
    assert len({entry.id for entry in entries}) == len(entries)
    for entry in entries:
        path, _, name = entry.id.partition("::")
        tree = ast.parse((LIST.parents[1] / path).read_text())
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        names = {node.name for node in ast.walk(tree) if isinstance(node, functions)}
        assert name.partition("[")[0] in names, f"{entry.id} does not exist"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (ENTRY * (MOST + 1), f"lists {MOST + 1} tests"),
        (ENTRY.replace('"a race"', '" "'), "needs id, since"),
        (ENTRY.replace("2026-01-02", '"long ago"'), "needs id, since"),
        (ENTRY.replace("::test_y", ""), "needs id, since"),
        (ENTRY + "retries = 3\n", "nothing else"),
    ],
)
def test_too_long_or_incomplete_quarantine_list_is_rejected(tmp_path, text, sentence):
    (tmp_path / "quarantine.toml").write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_entries(tmp_path / "quarantine.toml")


@pytest.fixture
def run(pytester, monkeypatch):
    """Run tests of which three are listed."""
    pytester.makeini("[pytest]\naddopts = -p tiers -p skips -p support.results -p xdist\n")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_file=SOURCE)
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("TEST_RESULTS", str(pytester.path / "results.json"))

    def run(*options):
        result = pytester.runpytest_subprocess(*options)
        return result, json.loads((pytester.path / "results.json").read_text())

    return run


@pytest.mark.parametrize("options", [(), ("-n", "1", "--dist", "loadgroup")])
def test_quarantined_test_may_fail_and_its_result_is_printed(run, options):
    result, found = run(*options)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*quarantined tests*", *RESULTS], consecutive=True)
    assert found["quarantined"] == RESULTS
    assert found["counts"] == {"expected to fail": 2, "passed": 1}


def test_outside_quarantine_fails_run(run, pytester):
    pytester.makepyfile(test_more="def test_other(): assert False\n")
    result, found = run()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert found["failed"] == ["test_more.py::test_other"]
