import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SOURCE = """
import subprocess, sys, time
import pytest

@pytest.fixture
def slow():
    time.sleep(0.1)

def test_one(slow):
    subprocess.run([sys.executable, "-c", "import time; time.sleep(0.2)"], check=True)
"""


@pytest.mark.parametrize("processes", [0, 1])
def test_phases_fixtures_and_programs_are_added_up(pytester, monkeypatch, processes):
    pytester.makeini("[pytest]\naddopts = -p support.timings -p xdist\n")
    pytester.makepyfile(SOURCE)
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("TEST_TIMES", str(pytester.path / "times"))
    assert pytester.runpytest_subprocess("-n", str(processes)).ret == 0
    command = [sys.executable, TESTS.parent / "scripts/test_times.py", pytester.path / "times"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    rows = {line.split(maxsplit=4)[-1]: line.split()[::2][:2] for line in found.splitlines() if " times " in line}
    file = "test_phases_fixtures_and_programs_are_added_up.py"
    assert rows.keys() >= {
        *("setup", "call", "teardown", file, f"{file}::test_one"),
        *(f"slow in {file}", f"{Path(sys.executable).name} -c in {file}"),
    }
    assert float(rows["setup"][0]) >= 0.1
    assert float(rows["call"][0]) >= 0.2
    assert rows["call"][1] == "1"
