import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import test_parts
from test_parts import PARTS, Result, summarize

ROOT = Path(__file__).parents[2]
CORE = {
    "counts": {"passed": 800, "failed": 1, "skipped": 3},
    "failed": ["tests/integration/test_pods.py::test_one"],
    "skipped": {"no card here": 3},
    "left_out": {"extended": 70, "long": 20},
    "quarantined": ["failed: tests/integration/test_x.py::test_y (since 2026-01-02: a race)"],
}
UNIT = {**CORE, "counts": {"passed": 6000}, "failed": [], "skipped": {"no card here": 1}, "left_out": {}}


def test_each_part_is_a_documented_make_target():
    described = re.findall(r"^([\w-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {f"test-{part}" for part in (*PARTS, test_parts.SUBMISSION)} <= set(described)


def test_summary_lists_results_times_failures_skips_and_omitted_tests():
    results = [Result("unit", 0, 185.2, UNIT | {"quarantined": []}), Result("integration", 2, 500, CORE)]
    assert summarize([*results, Result("collection", 0, 9, {})]) == [
        "",
        "Summary: 11 min 34 s in all",
        "  part           result          time passed failed skipped",
        "  unit           passed    3 min 05 s   6000      0       0",
        "  integration    FAILED    8 min 20 s    800      1       3",
        "  collection     passed           9 s",
        "Failed tests:",
        "  tests/integration/test_pods.py::test_one",
        "Skipped tests, by reason:",
        "     4  no card here",
        "Quarantined tests, whose failures do not count:",
        "  failed: tests/integration/test_x.py::test_y (since 2026-01-02: a race)",
        "Not run:",
        "  70 extended integration tests: variants, settings and longer playbooks (make test-extended)",
        "  20 long integration tests: playbooks that run for many minutes (make test-long)",
        "  some unit tests on another release of Python (make test-other-python)",
        "  make test-all runs all of these",
    ]


def test_submission_with_all_extended_tests_does_not_list_them_as_not_run():
    found = {**CORE, "left_out": {"long": 20}}
    (line,) = [each for each in summarize([Result("submission", 0, 9, found)]) if "integration tests" in each]
    assert line.startswith("  20 long ")


def test_all_parts_run_and_one_failure_fails_run(monkeypatch, capsys, tmp_path):
    ran = []

    def run_make(command, **options):
        ran.append(command[-1])
        assert Path(options["env"]["TEST_RESULTS"]).parent == tmp_path
        return type("Done", (), {"returncode": 2 * (command[-1] == "test-unit")})

    monkeypatch.setattr(test_parts, "FOLDER", tmp_path)
    monkeypatch.setattr(test_parts.subprocess, "run", run_make)
    monkeypatch.setattr(sys, "argv", ["test_parts.py", "all"])
    assert test_parts.main() == 1
    assert ran == [f"test-{part}" for part in PARTS]
    assert "Not run" not in capsys.readouterr().out


def test_unknown_part_is_rejected(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["test_parts.py", "unit", "x"])
    assert test_parts.main() == 2
    assert "other-python" in capsys.readouterr().err
