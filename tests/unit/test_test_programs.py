import subprocess
import sys
from pathlib import Path

SCRIPTS = Path(__file__).parents[2] / "scripts"


def run(script, *arguments, **environment):
    command = [sys.executable, SCRIPTS / script, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_check_lists_missing_programs_and_next_step():
    found = run("test_programs.py", "check", PATH="/nonexistent")
    assert found.returncode == 1
    assert "error: docker-registry (registries of the tests) is not on PATH" in found.stderr
    assert found.stderr.splitlines()[-1] == "Run `make programs` as root, then `make test` again."
    # `make test` does not need what other targets need.
    assert "debootstrap" not in found.stderr


def test_unknown_argument_is_rejected():
    assert run("test_programs.py").returncode == 2
    assert run("test_programs.py", "remove").returncode == 2


def test_command_runs_while_all_processors_are_busy():
    count = "import os; me = os.getppid(); print(open(f'/proc/{me}/task/{me}/children').read().count(' ') - 1)"
    found = run("under_load.py", sys.executable, "-c", f"{count}; raise SystemExit(7)")
    assert found.returncode == 7
    announced, busy = found.stdout.splitlines()
    assert announced == f"{busy} other processes keep all processors busy"


def test_under_load_requires_command():
    assert run("under_load.py").returncode == 2
