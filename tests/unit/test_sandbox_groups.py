"""That tests which share a sandbox run in one process, whatever releases of pytest and pytest-xdist are there."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
BODY = """
import pytest
pytestmark = pytest.mark.integration
@pytest.mark.parametrize("number", range(8))
def test_one(number{fixture}): pass
"""


def test_tests_that_share_sandbox_run_in_one_process(pytester, monkeypatch):
    pytester.makeini("[pytest]\nmarkers = integration\n")
    pytester.makeconftest("import pytest\n@pytest.fixture(scope='session')\ndef installed(): pass\n")
    shared = BODY.format(fixture=", installed")
    pytester.makepyfile(test_alone=BODY.format(fixture=""), test_shared=shared, test_shared_too=shared)
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    # Only the plugins that are needed: the processes start in a third of the time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    options = ("-v", "-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder")
    told = pytester.runpytest_subprocess("-p", "xdist", "-p", "sandbox_groups", *options).stdout.str()
    ran = re.findall(r"\[(gw\d)\].* PASSED test_(\w+)\.py", told)
    assert len(ran) == 24, told
    assert len({process for process, name in ran if name == "alone"}) == 1, told
    assert len({process for process, name in ran if name.startswith("shared")}) == 1, told
