"""The report for a terminal, with counts by stage, a row for each node, and each problem with its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.enablement.report.problems import ACCOUNTING_STEP, list_problems
from accelkit.enablement.report.values import Accounting, StageReport
from accelkit.model.stage import Outcome, Stage

# The words are distinguishable without colors. Failures are in capital letters.
_WORDS: Final = {
    Outcome.PASS: "pass",
    Outcome.SKIPPED: "skip",
    Outcome.STALE: "stale",
    Outcome.UNKNOWN: "unknown",
    Outcome.FAIL: "FAIL",
}
_STYLES: Final = {
    Outcome.PASS: "green",
    Outcome.SKIPPED: "bright_black",
    Outcome.STALE: "yellow",
    Outcome.UNKNOWN: "yellow",
    Outcome.FAIL: "bold red",
}
_WIDTH: Final = 8


def build_table(report: StageReport) -> RenderableType:
    """Return the report as lines for a terminal."""
    parts = [*_draw_summary(report), Text(""), *_draw_nodes(report)]
    if problems := list(_draw_problems(report)):
        parts += [Text(""), *problems]
    if report.accounting is not None:
        parts += [Text(""), *_draw_accounting(report.accounting)]
    return Group(*parts, Text(""), _draw_end(report))


def _draw_summary(report: StageReport) -> Iterator[Text]:
    width = max(len(stage) for stage in Stage)
    yield Text(f"{'':>2}  {'stage':<{width}}" + "".join(f"{each.value:>9}" for each in Outcome), style="bold")
    for number, row in enumerate(report.summary, start=1):
        line = Text(f"{number:>2}  {row.stage:<{width}}")
        for outcome in Outcome:
            count = row.counts[outcome]
            line.append(f"{count or '-':>9}", style=_STYLES[outcome] if count else "bright_black")
        yield line


def _draw_nodes(report: StageReport) -> Iterator[Text]:
    width = max(len("node"), *(len(node.name) for node in report.nodes), 0)
    numbers = "".join(f"{number:>{_WIDTH}}" for number in range(1, len(Stage) + 1))
    yield Text(f"{'node':<{width}}{numbers}", style="bold")
    for node in report.nodes:
        line = Text(f"{node.name:<{width}}")
        for cell in node.stages:
            line.append(f"{_WORDS[cell.outcome]:>{_WIDTH}}", style=_STYLES[cell.outcome])
        yield line


def _draw_problems(report: StageReport) -> Iterator[Text]:
    for each in list_problems(report):
        line = Text(_WORDS[each.outcome], style=_STYLES[each.outcome])
        line.append(f"  {each.stage} {each.reason}: {each.evidence} [{each.listed}]", style="default")
        yield line
        yield Text(f"      {each.next_action}", style="bright_black")


def _draw_accounting(found: Accounting) -> Iterator[Text]:
    yield Text("accounting  ", style="bold").append(_WORDS[found.outcome], style=_STYLES[found.outcome])
    for sentence in found.sentences:
        yield Text(f"      {sentence}")
    if found.sentences:
        yield Text(f"      {ACCOUNTING_STEP}", style="bright_black")
    if found.notes:
        count = len(found.notes)
        noted = (
            f"{count} note{'' if count == 1 else 's'} about comparisons that were not possible: see `accelkit audit`"
        )
        yield Text(f"      {noted}", style="bright_black")


def _draw_end(report: StageReport) -> Text:
    passed = sum(node.outcome in (Outcome.PASS, Outcome.SKIPPED) for node in report.nodes)
    count = len(report.nodes)
    return Text(f"{passed} of {count} node{'' if count == 1 else 's'} passed; worst: {report.outcome}", style="bold")
