from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import once_more

ONLY_ONCE = """
from pathlib import Path
def test_unlucky():
    first = not Path("seen").exists()
    Path("seen").touch()
    assert not first
"""
NEVER = "def test_broken(): assert False\n"
ALWAYS = "def test_sound(): open('runs', 'a').write('x')\n"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run tests of these sources as `make test-integration` does; return the exit status."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setattr(once_more, "REPOSITORY", tmp_path)
    monkeypatch.setattr(
        once_more, "FAILED", tmp_path / once_more.FAILED.relative_to(Path(once_more.__file__).parents[1])
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")

    def run_all(*options, **sources):
        (tmp_path / "tests").mkdir()
        for name, source in sources.items():
            (tmp_path / "tests" / f"test_{name}.py").write_text(source)
        monkeypatch.setattr(sys, "argv", ["once_more.py", "-q", *options, "tests"])
        return once_more.main()

    return run_all


def test_what_passes_alone_passes_and_is_named(run, tmp_path, capfd):
    assert run(once=ONLY_ONCE, always=ALWAYS) == 0
    assert (
        "1 of 1 passed alone and failed beside the others\n  tests/test_once.py::test_unlucky" in capfd.readouterr().out
    )
    assert (tmp_path / "runs").read_text() == "x", "what had passed ran again"


def test_of_a_group_of_tests_too_only_what_failed_runs_again(run, tmp_path, capfd):
    grouped = f"import pytest\npytestmark = pytest.mark.xdist_group('both')\n{ONLY_ONCE}{ALWAYS}"
    assert run("-p", "xdist", "-n", "1", "--dist", "loadgroup", grouped=grouped) == 0
    out = capfd.readouterr().out
    assert "tests/test_grouped.py::test_unlucky@both" in out, "no group was at work"
    assert "1 of 1 passed alone and failed beside the others\n  tests/test_grouped.py::test_unlucky\n" in out
    assert (tmp_path / "runs").read_text() == "x", "what had passed ran again"


def test_what_fails_twice_has_failed(run, capfd):
    assert run(once=ONLY_ONCE, never=NEVER) == once_more.TESTS_FAILED
    assert "1 of 2 passed alone" in capfd.readouterr().out


def test_many_that_fail_are_no_accident(run, capfd, monkeypatch):
    monkeypatch.setattr(once_more, "MOST", 1)
    assert run(once=ONLY_ONCE, never=NEVER) == once_more.TESTS_FAILED
    assert "passed alone" not in capfd.readouterr().out


def test_a_run_that_ended_otherwise_is_not_repeated(run, capfd):
    assert run(broken="raise KeyboardInterrupt\n") == pytest.ExitCode.INTERRUPTED
    assert "passed alone" not in capfd.readouterr().out


def test_a_run_that_passes_is_all(run, capfd):
    assert run(always=ALWAYS) == 0
    assert "more" not in capfd.readouterr().out
