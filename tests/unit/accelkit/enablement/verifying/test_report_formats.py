"""The report in each format: what parsers find in it, and that what others wrote stays where it belongs."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import msgspec
import pytest

from accelkit.enablement.report.formats import FILE_NAMES, ReportFormat, write_report
from accelkit.enablement.report.problems import list_problems
from accelkit.enablement.report.values import StageReport, find_exit_code, find_worst
from accelkit.model.card import Health
from accelkit.model.keys import STAGES_ANNOTATION
from accelkit.model.stage import Outcome, Stage, StageRecord, StageResult

HOSTILE = (
    "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)> ]]> &lt; $style "
    "\x1b[31mred\x00\ud83d\ufffe\u202e"
)


@pytest.fixture
def mixed(enabled):
    """Of three nodes one is sound, one lost a card, and one was started anew."""
    cluster = enabled("a", "b", "c")
    cluster["b"].change_card(health=Health.UNHEALTHY, health_reason="the card is gone from the PCI bus")
    cluster["c"].checked_in = cluster["c"].state
    cluster["c"].info = {**cluster["c"].info, "bootID": "boot-2"}
    return cluster.report()


@pytest.fixture
def hostile(cluster):
    """Whoever may write the node wrote a result into its annotation, past `write_record`."""
    results = {
        Stage.PLUGIN_CHECK: StageResult(
            Outcome.FAIL,
            "<b>bold</b>",
            HOSTILE.encode(errors="replace").decode(),
            "<a href=javascript:1>",
            1.0,
            -5.0,
            cluster.node.state,
        )
    }
    cluster.node.annotations[STAGES_ANNOTATION] = msgspec.json.encode(StageRecord(results)).decode()
    cluster.node.change_card(model="<i>H100</i> & co")
    return cluster.report()


def test_worst_cell_determines_outcome_and_exit_code(mixed, enabled):
    assert (mixed.outcome, mixed.exit_code) == (Outcome.FAIL, 4)
    sound = enabled("a").report()
    assert (sound.outcome, sound.exit_code) == (Outcome.PASS, 0)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(Outcome.PASS, 0), (Outcome.SKIPPED, 0), (Outcome.STALE, 3), (Outcome.UNKNOWN, 3), (Outcome.FAIL, 4)],
)
def test_each_outcome_has_its_exit_code(outcome, code):
    assert find_exit_code(outcome) == code
    assert find_worst([outcome]) is outcome
    assert find_worst([Outcome.PASS, outcome]) is (Outcome.PASS if outcome is Outcome.SKIPPED else outcome)


def test_stage_summary_counts_every_outcome(mixed):
    counts = {row.stage: row.counts for row in mixed.summary}
    assert list(counts) == list(Stage)
    assert counts[Stage.DRIVER_CHECK] == {"pass": 2, "skipped": 0, "stale": 0, "unknown": 0, "fail": 1}
    assert counts[Stage.PLUGIN_CHECK] == {"pass": 1, "skipped": 1, "stale": 1, "unknown": 0, "fail": 0}


def test_problems_are_described_without_skipped_stages(mixed):
    told = [str(each) for each in list_problems(mixed) if each.outcome is not Outcome.SKIPPED]
    assert told[0] == (
        "stage driver-check: fail (CardLost) on b: card GPU-b-0: the card is gone from the PCI bus; "
        "Reboot the node; if the card is still missing, have it inspected"
    )
    assert told[1].startswith("stage plugin-check: stale (StateChanged) on c: boot boot-1 is boot-2 now")
    assert len(told) == 2


def test_text_report_lists_counts_then_nodes_then_faults(mixed):
    lines = write_report(mixed, ReportFormat.TEXT).splitlines()
    assert lines[0].split() == ["stage", *Outcome]
    assert lines[3].split() == ["3", "driver-check", "2", "-", "-", "-", "1"]
    assert lines[12].split() == ["node", *map(str, range(1, 11))]
    assert lines[14].split() == ["b", "pass", "pass", "FAIL", *["skip"] * 7]
    assert lines[17] == "FAIL  driver-check CardLost: card GPU-b-0: the card is gone from the PCI bus [b]"
    assert lines[-1] == "1 of 3 nodes passed; worst: fail"


def test_fault_of_many_nodes_is_reported_once(enabled):
    cluster = enabled(*(f"node-{number:03}" for number in range(200)))
    for node in cluster.nodes.values():
        node.pods.clear()
    text = write_report(cluster.report(), ReportFormat.TEXT)
    (line,) = [line for line in text.splitlines() if line.startswith("FAIL")]
    assert line.endswith(
        "[node-000, node-001, node-002, node-003, node-004, node-005, node-006, node-007 and 192 more]"
    )
    assert len(text.splitlines()) < 200 + 30


def test_json_report_decodes_to_original_report(mixed):
    text = write_report(mixed, ReportFormat.JSON)
    assert msgspec.json.decode(text, type=StageReport) == mixed
    document = json.loads(text)
    assert (document["version"], document["exit_code"]) == (1, 4)
    cell = document["nodes"][1]["stages"][3]
    assert (cell["outcome"], cell["reason"], cell["because"]) == ("skipped", "NeedNotPassed", "driver-check")


def test_junit_report_counts_match_its_test_cases(mixed):
    root = ET.fromstring(write_report(mixed, ReportFormat.JUNIT))  # noqa: S314 - our own document
    assert (root.tag, root.get("tests"), root.get("failures"), root.get("errors")) == ("testsuites", "30", "1", "1")
    assert [suite.get("name") for suite in root] == ["a", "b", "c"]
    for each in [root, *root]:
        cases = list(each.iter("testcase"))
        counted = {kind: sum(case.find(tag) is not None for case in cases) for kind, tag in TAGS.items()}
        assert {kind: int(each.get(kind)) for kind in TAGS} == counted
    (failure,) = root.iter("failure")
    assert failure.get("type") == "CardLost"
    assert failure.text.startswith("fail: card GPU-b-0: the card is gone from the PCI bus\nNext: Reboot the node")
    (error,) = root.iter("error")
    assert error.get("message").startswith("StateChanged: boot boot-1 is boot-2 now")
    case = root.find("testsuite[@name='a']/testcase[@name='plugin-check']")
    assert (case.get("classname"), case.get("time"), case.findtext("system-out")) == (
        "a",
        "2.500",
        "4 GiB of its share",
    )


TAGS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def test_ctrf_report_has_exactly_fields_of_its_schema(mixed):
    document = json.loads(write_report(mixed, ReportFormat.CTRF))
    assert document.keys() == {"reportFormat", "specVersion", "timestamp", "generatedBy", "results", "extra"}
    assert document["reportFormat"] == "CTRF"
    assert re.fullmatch(r"\d+\.\d+\.\d+", document["specVersion"])
    results = document["results"]
    assert results.keys() == {"tool", "summary", "tests"}
    assert results["tool"].keys() == {"name", "version"}
    summary, tests = results["summary"], results["tests"]
    assert summary.keys() == {
        *("tests", "passed", "failed", "skipped", "pending", "other"),
        *("suites", "start", "stop"),
    }
    assert all(isinstance(value, int) for value in summary.values())
    assert summary["tests"] == len(tests) == 30
    for status in ("passed", "failed", "skipped", "pending", "other"):
        assert summary[status] == sum(test["status"] == status for test in tests)
    for test in tests:
        assert test.keys() == {"name", "status", "duration", "suite", "message", "rawStatus", "type", "extra"}
        assert isinstance(test["duration"], int)
        assert test["suite"] == [test["extra"]["node"]]
        assert test["rawStatus"] in list(Outcome)
    assert [(test["name"], test["extra"]["reason"]) for test in tests if test["status"] == "other"] == [
        ("c plugin-check", "StateChanged")
    ]


class Page(HTMLParser):
    """What a browser finds: elements with their attributes, and texts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def find(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def test_html_report_is_self_contained(mixed):
    text = write_report(mixed, ReportFormat.HTML)
    page = Page(text)
    led = [each[key] for _, each in page.elements for key in ("src", "href") if key in each]
    assert all(target.startswith("#") for target in led)
    assert not re.findall(r"url\(|@import|http-equiv=.refresh", text)
    assert {"link", "img", "iframe", "object", "base"} & {tag for tag, _ in page.elements} == set()


def test_html_report_names_cluster_by_context_and_server(enabled):
    report = enabled("a").report()
    assert "1 node of <code>https://api</code> ·" in write_report(report, ReportFormat.HTML)
    named = msgspec.structs.replace(report, context="<prod>")
    assert "1 node of <code>&lt;prod&gt;</code> at <code>https://api</code> ·" in write_report(named, ReportFormat.HTML)


def test_html_report_security_policy_allows_only_its_own_style_and_script(mixed):
    text = write_report(mixed, ReportFormat.HTML)
    (policy,) = [each["content"] for each in Page(text).find("meta") if each.get("http-equiv")]
    assert policy.startswith("default-src 'none'")
    for tag in ("style", "script"):
        (content,) = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    # These would be forbidden by it.
    assert not re.search(r"<[^>]*\s(?:style|on\w+)=", text)


def test_html_report_supports_keyboard_navigation_and_works_without_colours(mixed):
    page = Page(write_report(mixed, ReportFormat.HTML))
    links = [each["href"][1:] for each in page.find("a")]
    places = {each["id"] for _, each in page.elements if "id" in each}
    assert set(links) <= places
    assert len(links) == 1 + 30 + sum(len(each.nodes) for each in list_to_do(mixed))
    assert all(each["tabindex"] == "-1" for each in page.find("article"))
    assert page.find("input")[0]["type"] == "search"
    assert [each["value"] for each in page.find("input")[1:]] == list(Outcome)
    assert page.find("html") == [{"lang": "en"}]
    assert ("a", "\N{MULTIPLICATION X} fail") in page.texts
    assert "prefers-color-scheme: dark" in write_report(mixed, ReportFormat.HTML)


def list_to_do(report):
    return [each for each in list_problems(report) if each.outcome is not Outcome.SKIPPED]


def test_html_report_starts_with_each_problem_once_and_links_to_its_cells(mixed):
    text = write_report(mixed, ReportFormat.HTML)
    begun = text.partition('<h2 id="to-do">')[2].partition("</section>")[0]
    found = list_to_do(mixed)
    assert found
    assert begun.count("<li>") == len(found)
    for each in found:
        assert begun.count(f"{each.stage} · <code>{each.reason}</code>") == 1
        assert begun.count(f'-{each.stage}">') == len(each.nodes)


def test_html_report_contains_evidence_of_every_cell(mixed):
    page = Page(write_report(mixed, ReportFormat.HTML))
    told = {text for tag, text in page.texts if tag == "dd"}
    assert {cell.evidence for node in mixed.nodes for cell in node.stages} <= told


def test_hostile_evidence_is_escaped_in_html_report(hostile):
    text = write_report(hostile, ReportFormat.HTML)
    page = Page(text)
    assert len(page.find("script")) == 1
    assert {tag for tag, _ in page.elements} & {"img", "b", "i"} == set()
    assert "<img" not in text
    shown = "".join(data for _, data in page.texts)
    assert "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)> ]]> &lt; $style" in shown
    assert "2 x" not in shown
    assert "<i>H100</i> & co" in shown
    for character in "\x00\x1b\u202e":
        assert character not in text


def test_junit_report_with_hostile_evidence_remains_parsable(hostile):
    text = write_report(hostile, ReportFormat.JUNIT)
    root = ET.fromstring(text.encode())  # noqa: S314 - our own document
    (failure,) = root.iter("failure")
    assert failure.get("message").startswith("Unnamed: </script><script>alert(1)</script>")
    assert failure.text.endswith("Next: <a href=javascript:1>")


@pytest.mark.parametrize(("found_at", "seconds"), [(1e300, 1e308), (-1e300, 0.0), (1e12, 1e9)])
def test_invalid_timestamps_do_not_prevent_report(cluster, found_at, seconds):
    state = cluster.node.state
    results = {Stage.PLUGIN_CHECK: StageResult(Outcome.PASS, found_at=found_at, seconds=seconds, state=state)}
    cluster.node.annotations[STAGES_ANNOTATION] = msgspec.json.encode(StageRecord(results)).decode()
    for wanted in ReportFormat:
        assert write_report(cluster.report(), wanted)


def test_hostile_evidence_is_sanitized_in_every_format(hostile):
    (cell,) = [cell for cell in hostile.nodes[0].stages if cell.stage is Stage.PLUGIN_CHECK]
    assert (cell.reason, cell.seconds) == ("Unnamed", 0.0)
    for wanted in ReportFormat:
        text = write_report(hostile, wanted)
        assert "\x1b" not in text
        assert text.encode().decode() == text


def test_evidence_is_truncated(cluster):
    long = StageResult(Outcome.FAIL, "R" * 80, "e" * 5000, "n" * 5000, 1.0, 0.0, cluster.node.state)
    cluster.node.annotations[STAGES_ANNOTATION] = msgspec.json.encode(StageRecord({Stage.PLUGIN_CHECK: long})).decode()
    cell = cluster.report().nodes[0].stages[5]
    assert (len(cell.evidence), len(cell.next_action), cell.reason) == (400, 400, "Unnamed")


def test_every_format_has_its_own_file_name():
    assert FILE_NAMES.keys() == set(ReportFormat)
    assert len(set(FILE_NAMES.values())) == len(ReportFormat)
