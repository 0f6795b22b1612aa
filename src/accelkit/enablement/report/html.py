"""The report as one self-contained page, for e-mail, CI artifacts and air-gapped networks.

All text from other sources is escaped. A content security policy allows only the style sheet and script of the page,
which it identifies by hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from html import escape
from importlib import resources
from string import Template
from typing import Final

from accelkit.enablement.report.problems import LISTED_NODES, StageProblem, describe_accounting, list_problems
from accelkit.enablement.report.values import Cell, NodeReport, StageReport
from accelkit.model.stage import Outcome, Stage

_FILES: Final = resources.files("accelkit.enablement.report") / "page"
_SIGNS: Final = {
    Outcome.PASS: "\N{CHECK MARK}",
    Outcome.SKIPPED: "\N{EN DASH}",
    Outcome.STALE: "\N{ANTICLOCKWISE OPEN CIRCLE ARROW}",
    Outcome.UNKNOWN: "?",
    Outcome.FAIL: "\N{MULTIPLICATION X}",
}


def write_html(report: StageReport) -> str:
    """Return the page."""
    style, script = _read("page.css"), _read("page.js")
    count = len(report.nodes)
    return Template(_read("page.html")).substitute(
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        outcome=report.outcome.value,
        sign=_SIGNS[report.outcome],
        cluster=" at ".join(f"<code>{escape(each)}</code>" for each in (report.context, report.server) if each),
        accelkit=escape(report.accelkit),
        made_at=datetime.fromtimestamp(report.made_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        nodes=f"{count} node{'' if count == 1 else 's'}",
        exit_code=str(report.exit_code),
        outcomes="".join(f"<th scope=col>{each}</th>" for each in Outcome),
        summary="".join(_draw_summary(report)),
        to_do=_draw_to_do(report),
        choices="".join(_draw_choice(each) for each in Outcome),
        stages="".join(f"<th scope=col>{each}</th>" for each in Stage),
        rows="".join(_draw_row(node, number) for number, node in enumerate(report.nodes)),
        details="".join(_draw_details(report)),
    )


def _draw_summary(report: StageReport) -> Iterator[str]:
    for row in report.summary:
        cells = "".join(
            f'<td class="{outcome if count else "none"}">{count}</td>' for outcome, count in row.counts.items()
        )
        yield f"<tr><th scope=row>{row.stage}</th>{cells}</tr>"


def _draw_to_do(report: StageReport) -> str:
    numbers = {node.name: number for number, node in enumerate(report.nodes)}
    drawn = "".join(
        f'<li><span class="{each.outcome}">{_SIGNS[each.outcome]} {each.outcome}</span> {each.stage} · '
        f"<code>{escape(each.reason)}</code>: {escape(each.evidence)} [{_draw_nodes(each, numbers)}]"
        f"<br>{escape(each.next_action)}</li>"
        for each in list_problems(report)
        if each.outcome is not Outcome.SKIPPED
    )
    drawn += "".join(f"<li>{escape(sentence)}</li>" for sentence in describe_accounting(report))
    return f"<ol>{drawn}</ol>" if drawn else "<p>No action is needed: each stage passed or was skipped.</p>"


def _draw_nodes(problem: StageProblem, numbers: Mapping[str, int]) -> str:
    links = [f'<a href="#n{numbers[name]}-{problem.stage}">{escape(name)}</a>' for name in problem.nodes[:LISTED_NODES]]
    more = len(problem.nodes) - len(links)
    return ", ".join(links) + (f" and {more} more" if more else "")


def _draw_choice(outcome: Outcome) -> str:
    return f'<label><input type=checkbox name=outcome value="{outcome}" checked> {_SIGNS[outcome]} {outcome}</label>'


def _draw_row(node: NodeReport, number: int) -> str:
    cells = "".join(
        f'<td class="{cell.outcome}"><a href="#{_name(number, cell)}" title="{escape(cell.reason)}">'
        f"{_SIGNS[cell.outcome]} {cell.outcome}</a></td>"
        for cell in node.stages
    )
    return f'<tr data-outcome="{node.outcome}"><th scope=row>{escape(node.name)}</th>{cells}</tr>'


def _draw_details(report: StageReport) -> Iterator[str]:
    for number, node in enumerate(report.nodes):
        for cell in node.stages:
            yield _draw_detail(node, number, cell)


def _draw_detail(node: NodeReport, number: int, cell: Cell) -> str:
    found_at = datetime.fromtimestamp(cell.found_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC") if cell.found_at else ""
    terms = {
        "Evidence": cell.evidence,
        "Next action": cell.next_action,
        "Cause": cell.because.value if cell.because else "",
        "Found": found_at,
        "Duration": f"{cell.seconds:.1f} s" if cell.seconds else "",
    }
    listed = "".join(f"<dt>{term}</dt><dd>{escape(text)}</dd>" for term, text in terms.items() if text)
    return (
        f'<article id="{_name(number, cell)}" tabindex=-1 data-outcome="{cell.outcome}">'
        f'<h3><span class="{cell.outcome}">{_SIGNS[cell.outcome]} {cell.outcome}</span> '
        f"{escape(node.name)} · {cell.stage}{f' · <code>{escape(cell.reason)}</code>' if cell.reason else ''}</h3>"
        f"<dl>{listed}</dl></article>"
    )


def _name(number: int, cell: Cell) -> str:
    return f"n{number}-{cell.stage}"


def _read(name: str) -> str:
    return (_FILES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
