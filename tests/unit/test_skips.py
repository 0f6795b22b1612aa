from pathlib import Path

import pytest
from skips import UNEXPLAINED_STATUS

TESTS = Path(__file__).parents[1]


@pytest.fixture
def session(pytester, monkeypatch):
    """Run a test that is skipped for a reason, in a session of its own."""
    pytester.makeini("[pytest]\naddopts = -p skips -p no:randomly -p no:asyncio\n")
    monkeypatch.setenv("PYTHONPATH", str(TESTS))

    def run(reason, *, ci, processes=1):
        pytester.makepyfile(f"import pytest\ndef test_one(): pytest.skip({reason!r})\ndef test_two(): pass\n")
        monkeypatch.setenv("CI", ci)
        if processes == 1:
            return pytester.runpytest_inprocess()
        # Only the plugin that is needed: the processes start in a third of the time.
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        return pytester.runpytest_subprocess("-p", "xdist", "-n", str(processes))

    return run


def test_unexplained_skip_fails_run_in_ci(session):
    result = session("no moon tonight", ci="true")
    result.stdout.fnmatch_lines(["*1  no moon tonight (NOT EXPLAINED)", "CI is set, so this run fails*"])
    assert result.ret == UNEXPLAINED_STATUS


def test_unexplained_skip_is_reported_despite_failed_test(pytester, session):
    pytester.makepyfile(test_more="def test_three(): assert False\n")
    assert session("no moon tonight", ci="true").ret == UNEXPLAINED_STATUS


def test_explained_skip_passes_in_ci(session):
    result = session("no NVIDIA card here: it does not load", ci="true")
    result.stdout.fnmatch_lines(["*1  no NVIDIA card here: it does not load (hardware*"])
    assert result.ret == pytest.ExitCode.OK


def test_unexplained_skip_passes_outside_ci(session):
    result = session("no moon tonight", ci="")
    result.stdout.fnmatch_lines(["*1  no moon tonight (NOT EXPLAINED)"])
    result.stdout.no_fnmatch_line("CI is set*")
    assert result.ret == pytest.ExitCode.OK


def test_skips_of_several_processes_are_counted_once(pytester, session):
    pytester.makepyfile(test_more="import pytest\npytest.skip('no sun', allow_module_level=True)\n")
    result = session("no moon tonight", ci="true", processes=2)
    result.stdout.fnmatch_lines_random(["*1  no sun (NOT EXPLAINED)", "*1  no moon tonight (NOT EXPLAINED)"])
    assert result.ret == UNEXPLAINED_STATUS
