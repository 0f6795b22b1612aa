import json
from xml.etree import ElementTree as ET

import pytest
from ansible_collections.accelkit.kubernetes.plugins.module_utils import _stages
from ansible_collections.accelkit.kubernetes.plugins.modules import stage_report

from accelkit.audit.comparison import AuditFinding
from accelkit.enablement.report.formats import FILE_NAMES, ReportFormat
from accelkit.enablement.report.make import add_accounting
from accelkit.enablement.report.values import Accounting, Cell, NodeReport, StageReport, StageSummary
from accelkit.model.stage import NodeState, Outcome, Stage


def report(outcome, reason, code):
    cell = Cell(Stage.DISCOVER, outcome, reason, "its agent found no card", "Compare `lspci`")
    counts = {each: int(each is outcome) for each in Outcome}
    nodes = tuple(NodeReport(name, NodeState(), (cell,)) for name in ("a", "b"))
    return StageReport("https://api", "0.1.0", 1.0, outcome, code, (StageSummary(Stage.DISCOVER, counts),), nodes)


@pytest.fixture
def finds(stub):
    """Let the cluster be as a report says; return with what it is asked for."""
    return lambda outcome, reason="", code=0: stub(_stages, "verify_cluster", report(outcome, reason, code))


def test_failed_stage_is_one_fault_for_all_nodes_without_module_failure(finds, run_module):
    finds(Outcome.FAIL, "NoCards", 4)
    answer = run_module(stage_report, {})
    assert not answer.get("failed")
    assert answer["faults"] == ["stage discover: fail (NoCards) on a, b: its agent found no card; Compare `lspci`"]
    assert (answer["doubts"], answer["changed"]) == ([], False)
    assert (answer["report"]["exit_code"], answer["report"]["outcome"]) == (4, "fail")
    assert answer["report"]["nodes"][0]["stages"][0]["reason"] == "NoCards"
    assert "files" not in answer


@pytest.mark.parametrize("outcome", [Outcome.STALE, Outcome.UNKNOWN])
def test_unknown_or_stale_stage_is_a_doubt_and_not_a_fault(finds, run_module, outcome):
    finds(outcome, "InventoryMissing", 3)
    answer = run_module(stage_report, {})
    assert answer["faults"] == []
    assert answer["doubts"][0].startswith(f"stage discover: {outcome} (InventoryMissing) on a, b: ")


def test_module_options_are_passed_to_verification(finds, run_module):
    asked = finds(Outcome.PASS)
    run_module(stage_report, {"node": ["a"], "namespace": "ak", "wait_seconds": 3})
    run_module(stage_report, {"driver_mode": "package"})
    assert asked == [
        ((), {"namespace": "ak", "nodes": ["a"], "seconds": 3.0, "driver_mode": ""}),
        ((), {"namespace": "accelkit", "nodes": [], "seconds": 10.0, "driver_mode": "package"}),
    ]


def test_all_report_files_are_written_into_new_folder(finds, run_module, tmp_path):
    finds(Outcome.FAIL, "NoCards", 4)
    folder = tmp_path / "build" / "reports"
    answer = run_module(stage_report, {"folder": str(folder)})
    assert answer["changed"]
    assert sorted(answer["files"]) == sorted(str(path) for path in folder.iterdir())
    assert {path.name for path in folder.iterdir()} == set(FILE_NAMES.values())
    root = ET.parse(folder / "stages.junit.xml").getroot()  # noqa: S314 - our own document
    assert root.get("failures") == "2"
    assert json.loads((folder / "stages.json").read_text())["exit_code"] == 4


def test_formats_option_selects_report_files(finds, run_module, tmp_path):
    finds(Outcome.PASS)
    run_module(stage_report, {"folder": str(tmp_path), "formats": ["html"]})
    assert (tmp_path / "stages.html").is_file()
    assert not (tmp_path / "stages.json").exists()


def test_check_mode_writes_no_report_files(finds, run_module, tmp_path):
    finds(Outcome.PASS)
    folder = tmp_path / "reports"
    answer = run_module(stage_report, {"folder": str(folder)}, check=True)
    assert (len(answer["files"]), folder.exists()) == (len(ReportFormat), False)


def test_unwritable_folder_error_is_one_sentence_with_report(finds, run_module, tmp_path):
    finds(Outcome.PASS)
    (tmp_path / "file").write_text("")
    answer = run_module(stage_report, {"folder": str(tmp_path / "file" / "reports")})
    assert answer["failed"]
    assert answer["msg"].endswith("cannot be written: Not a directory; name another folder")
    assert answer["report"]["exit_code"] == 0


def test_module_formats_match_report_formats():
    assert [each.value for each in ReportFormat] == stage_report.FORMATS


@pytest.mark.parametrize(
    ("accounting", "where"),
    [
        (Accounting(Outcome.FAIL, (AuditFinding("a", "c", "", "over_capacity", "it has 1 GiB"),), (), ""), "faults"),
        (Accounting(Outcome.UNKNOWN, (), (), "no right"), "doubts"),
    ],
    ids=["fault", "doubt"],
)
def test_audit_finding_is_a_fault_and_failed_audit_a_doubt(stub, run_module, accounting, where):
    stub(_stages, "verify_cluster", add_accounting(report(Outcome.PASS, "", 0), accounting))
    answer = run_module(stage_report, {})
    assert not answer.get("failed")
    assert answer["report"]["outcome"] == accounting.outcome
    assert [len(answer[each]) for each in ("faults", "doubts")] == ([1, 0] if where == "faults" else [0, 1])
    assert answer[where][0].startswith(f"accounting: {accounting.outcome} (")
