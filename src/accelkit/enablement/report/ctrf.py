"""The report in the Common Test Report Format (CTRF, schema at ctrf.io), with a test for each stage on each node.

The outcomes `stale` and `unknown` are written as the status `other`, because CTRF does not define a matching status;
`rawStatus` contains the original outcome.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from accelkit.enablement.report.problems import ACCOUNTING_STEP
from accelkit.enablement.report.values import Accounting, Cell, NodeReport, StageReport
from accelkit.model.stage import Outcome

_SPECIFICATION: Final = "1.0.0"
_STATUSES: Final = {
    Outcome.PASS: "passed",
    Outcome.FAIL: "failed",
    Outcome.SKIPPED: "skipped",
    Outcome.STALE: "other",
    Outcome.UNKNOWN: "other",
}


def write_ctrf(report: StageReport) -> str:
    """Return the JSON document."""
    tests = [_build_test(node, cell) for node in report.nodes for cell in node.stages]
    if report.accounting is not None:
        tests.append(_build_accounting(report.accounting))
    counts = Counter(test["status"] for test in tests)
    made_at = _milliseconds(report.made_at)
    document = {
        "reportFormat": "CTRF",
        "specVersion": _SPECIFICATION,
        "timestamp": datetime.fromtimestamp(report.made_at, UTC).isoformat(timespec="seconds"),
        "generatedBy": f"accelkit {report.accelkit}",
        "results": {
            "tool": {"name": "accelkit verify", "version": report.accelkit},
            "summary": {
                "tests": len(tests),
                **{status: counts[status] for status in ("passed", "failed", "skipped", "pending", "other")},
                "suites": len(report.nodes) + (report.accounting is not None),
                "start": made_at,
                "stop": made_at,
            },
            "tests": tests,
        },
        "extra": {"server": report.server, "outcome": report.outcome.value, "exitCode": report.exit_code},
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _build_test(node: NodeReport, cell: Cell) -> dict[str, Any]:
    extra = {
        "node": node.name,
        "stage": cell.stage.value,
        "reason": cell.reason,
        "nextAction": cell.next_action,
        "because": cell.because.value if cell.because else "",
        "foundAt": _milliseconds(cell.found_at),
    }
    return {
        "name": f"{node.name} {cell.stage}",
        "status": _STATUSES[cell.outcome],
        "duration": _milliseconds(cell.seconds),
        "suite": [node.name],
        "message": ": ".join(filter(None, (cell.reason, cell.evidence))),
        "rawStatus": cell.outcome.value,
        "type": "enablement",
        "extra": {key: value for key, value in extra.items() if value},
    }


def _build_accounting(found: Accounting) -> dict[str, Any]:
    return {
        "name": "accounting",
        "status": _STATUSES[found.outcome],
        "duration": 0,
        "suite": ["accounting"],
        "message": "; ".join(found.sentences),
        "rawStatus": found.outcome.value,
        "type": "accounting",
        "extra": {"nextAction": ACCOUNTING_STEP} if found.sentences else {},
    }


def _milliseconds(seconds: float) -> int:
    return round(1000 * seconds)
