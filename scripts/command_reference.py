"""Generate docs/reference/commands.md from the `--help` texts: `python scripts/command_reference.py`.

A unit test compares the page with this script.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from accelkit.cli import main as accelkit

PAGE = Path(__file__).resolve().parents[1] / "docs/reference/commands.md"
# Click leaves two of the 80 columns of a terminal free.
WIDTH = 78
INTRODUCTION = """\
# Command reference

This page is generated from the `--help` texts by `scripts/command_reference.py`. Do not edit it.
"""


def build_page() -> str:
    """Return the page: one section for each command, in alphabetical order below the program itself."""
    sections = [f"## {path}\n\n```text\n{text}\n```\n" for path, text in list_help_texts()]
    return "\n".join([INTRODUCTION, *sections])


def list_help_texts() -> Iterator[tuple[str, str]]:
    """Yield the name and the help text of the program and of each of its commands."""
    yield from _list_help_texts(accelkit, click.Context(accelkit, info_name="accelkit", terminal_width=WIDTH))


def _list_help_texts(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    text = command.get_help(context)
    yield context.command_path, "\n".join(line.rstrip() for line in text.splitlines())
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(context)):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                inner = click.Context(found, info_name=name, parent=context, terminal_width=WIDTH)
                yield from _list_help_texts(found, inner)


if __name__ == "__main__":
    PAGE.write_text(build_page())
