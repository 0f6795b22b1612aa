"""The report as JUnit XML, which CI systems display, with a test suite for each node and a test case for each stage.

A failed stage is reported as a failure. A stale or unknown stage is reported as an error, because it was not tested and
must not be displayed as passed.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from accelkit.enablement.report.problems import ACCOUNTING_STEP
from accelkit.enablement.report.values import Accounting, Cell, NodeReport, StageReport
from accelkit.model.stage import Outcome

_KINDS: Final = {
    Outcome.FAIL: "failure",
    Outcome.STALE: "error",
    Outcome.UNKNOWN: "error",
    Outcome.SKIPPED: "skipped",
}
# Characters that XML 1.0 does not allow even if they are escaped, and that `accelkit.texts.clean` does not remove.
_NOT_IN_XML: Final = re.compile(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(report: StageReport) -> str:
    """Return the XML document."""
    root = Element("testsuites", {"name": "accelkit verify", **_count(report.nodes)})
    for node in report.nodes:
        made_at = datetime.fromtimestamp(report.made_at, UTC).isoformat(timespec="seconds")
        suite = SubElement(root, "testsuite", {"name": _fit(node.name), "timestamp": made_at, **_count((node,))})
        for cell in node.stages:
            _add_case(suite, node, cell)
    if report.accounting is not None:
        _add_accounting(root, report.accounting)
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: Element, node: NodeReport, cell: Cell) -> None:
    seconds = f"{cell.seconds:.3f}"
    case = SubElement(suite, "testcase", {"name": cell.stage.value, "classname": _fit(node.name), "time": seconds})
    if cell.outcome is Outcome.PASS:
        SubElement(case, "system-out").text = _fit(cell.evidence)
        return
    message = {"message": _fit(f"{cell.reason}: {cell.evidence}")}
    if cell.outcome is Outcome.SKIPPED:
        SubElement(case, "skipped", message)
        return
    element = SubElement(case, _KINDS[cell.outcome], {**message, "type": cell.reason})
    element.text = _fit(f"{cell.outcome}: {cell.evidence}\nNext: {cell.next_action}")


def _add_accounting(root: Element, found: Accounting) -> None:
    kind = _KINDS.get(found.outcome)
    counts = {"tests": "1", "failures": "0", "errors": "0", "skipped": "0", "time": "0.000"}
    if kind is not None:
        counts["failures" if kind == "failure" else "errors"] = "1"
    suite = SubElement(root, "testsuite", {"name": "accounting", **counts})
    case = SubElement(suite, "testcase", {"name": "accounting", "classname": "accounting", "time": "0.000"})
    for name in ("tests", "failures", "errors"):
        root.set(name, str(int(root.get(name, "0")) + int(counts[name])))
    if kind is None:
        SubElement(case, "system-out").text = _fit("\n".join(found.notes))
        return
    message = f"{len(found.differences)} differences" if found.differences else found.problem
    element = SubElement(case, kind, {"message": _fit(message), "type": "Accounting"})
    element.text = _fit("\n".join((*found.sentences, f"Next: {ACCOUNTING_STEP}")))


def _count(nodes: tuple[NodeReport, ...]) -> dict[str, str]:
    cells = [cell for node in nodes for cell in node.stages]
    kinds = [_KINDS.get(cell.outcome) for cell in cells]
    return {
        "tests": str(len(cells)),
        "failures": str(kinds.count("failure")),
        "errors": str(kinds.count("error")),
        "skipped": str(kinds.count("skipped")),
        "time": f"{sum(cell.seconds for cell in cells):.3f}",
    }


def _fit(text: str) -> str:
    return _NOT_IN_XML.sub("\N{REPLACEMENT CHARACTER}", text)
