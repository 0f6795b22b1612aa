"""Report formats, with their names in command-line options."""

from __future__ import annotations

import io
from enum import StrEnum
from typing import Final

import msgspec
from rich.console import Console

from accelkit.enablement.report.ctrf import write_ctrf
from accelkit.enablement.report.html import write_html
from accelkit.enablement.report.junit import write_junit
from accelkit.enablement.report.text import build_table
from accelkit.enablement.report.values import StageReport


class ReportFormat(StrEnum):
    """Report formats."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"
    CTRF = "ctrf"
    HTML = "html"


# File names that CI systems expect.
FILE_NAMES: Final = {
    ReportFormat.TEXT: "stages.txt",
    ReportFormat.JSON: "stages.json",
    ReportFormat.JUNIT: "stages.junit.xml",
    ReportFormat.CTRF: "stages.ctrf.json",
    ReportFormat.HTML: "stages.html",
}


def write_report(report: StageReport, format_: ReportFormat) -> str:
    """Return the report as text without colors; the text ends with a line break."""
    match format_:
        case ReportFormat.TEXT:
            stream = io.StringIO()
            Console(file=stream, highlight=False, soft_wrap=True, color_system=None).print(build_table(report))
            return stream.getvalue()
        case ReportFormat.JSON:
            return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"
        case ReportFormat.JUNIT:
            return write_junit(report)
        case ReportFormat.CTRF:
            return write_ctrf(report)
        case ReportFormat.HTML:
            return write_html(report)
