import json
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SOURCE = """
import pytest
def test_core(): pass
@pytest.mark.extended
def test_extended(): pass
@pytest.mark.extended
@pytest.mark.long
def test_long(): pass
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Run a test of each tier in each of two files; return the result and what was written about it."""
    pytester.makeini("[pytest]\naddopts = -p tiers -p skips -p support.quarantine -p support.results -p xdist\n")
    pytester.makepyfile(test_one=SOURCE, test_two=SOURCE)
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    # Only the plugins that are needed: the processes start in a third of the time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("TEST_RESULTS", str(pytester.path / "results.json"))

    def run(*options):
        result = pytester.runpytest_subprocess(*options)
        written = pytester.path / "results.json"
        return result, json.loads(written.read_text()) if written.exists() else {}

    return run


@pytest.mark.parametrize(
    ("tiers", "passed", "left_out"),
    [
        ("core", 2, {"extended": 2, "long": 2}),
        ("extended", 2, {"core": 2, "long": 2}),
        ("long", 2, {"core": 2, "extended": 2}),
        ("core,extended,long", 6, {}),
    ],
)
def test_selected_tiers_run_and_other_tiers_are_counted(run, tiers, passed, left_out):
    result, found = run("--tiers", tiers)
    assert result.ret == 0
    assert found["counts"] == {"passed": passed}
    assert found["left_out"] == left_out


@pytest.mark.parametrize("processes", [0, 2])
def test_long_tests_are_excluded_by_default_and_counted_once(run, processes):
    result, found = run("-n", str(processes))
    assert found["counts"] == {"passed": 4}
    assert found["left_out"] == {"long": 2}
    result.stdout.fnmatch_lines(["left out: 2 tests of the tier long (--tiers long runs them)"])


@pytest.mark.parametrize(("listed", "passed"), [("test_two.py\n", 3), ("", 2), ("all\n", 4)])
def test_extended_tests_are_limited_to_listed_files(run, pytester, listed, passed):
    (pytester.path / "files").write_text(listed)
    _, found = run("--extended-in", "files")
    assert found["counts"] == {"passed": passed}


def test_unknown_tier_is_rejected(run):
    result, _ = run("--tiers", "core,slow")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--tiers: slow: not one of core, extended, long"])
