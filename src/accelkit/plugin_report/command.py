"""The command `accelkit plugins`."""

from __future__ import annotations

from collections.abc import Sequence

import click
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from accelkit.output import output_option, print_value
from accelkit.plugin_report.report import PluginView, view_plugins


@click.command(
    "plugins",
    short_help="List the plug-ins of other distributions.",
    epilog="Exit codes: 0 all plug-ins are valid, 1 at least one plug-in is invalid, 2 invalid usage.",
)
@output_option
@click.pass_context
def plugins(context: click.Context, output: str) -> None:
    """List the profiles, dialects, policies and memory sources from other Python distributions, and their problems.

    The command loads each plug-in to check it.
    """
    found = view_plugins()
    print_value(found, output, lambda: _build_table(found))
    context.exit(1 if any(each.problem for each in found) else 0)


def _build_table(found: Sequence[PluginView]) -> RenderableType:
    if not found:
        return Text("no plug-ins of other distributions are installed")
    table = Table("GROUP", "NAME", "DISTRIBUTION", "VERSION", "STATE", box=None, pad_edge=False)
    for each in found:
        table.add_row(each.group, each.name, each.distribution, each.version, "wrong" if each.problem else "ok")
    problems = dict.fromkeys(f"{each.problem}; {each.next_step}" for each in found if each.problem)
    return Group(table, *map(Text, problems))
