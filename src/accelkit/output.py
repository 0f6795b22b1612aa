"""The option `-o table|json|yaml`, and functions that print output in these formats."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from enum import StrEnum

import click
import msgspec
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text
from ruamel.yaml import YAML

from accelkit.texts import clean

_WIDTH = 4096


class Format(StrEnum):
    """Output formats."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def output_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add the option `-o` to a command, which receives the value as `output`."""
    return click.option(
        *("-o", "--output"),
        type=click.Choice([each.value for each in Format]),
        default="table",
        show_default=True,
        help="Output format.",
    )(command)


def print_value(value: object, output: str, table: Callable[[], RenderableType]) -> None:
    """Print `value` as JSON or YAML, or as the table that `table` creates from it."""
    match Format(output):
        case Format.JSON:
            click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
        case Format.YAML:
            stream = io.StringIO()
            writer = YAML()
            writer.default_flow_style = False
            # Do not break a digest or a sentence across lines.
            writer.width = _WIDTH
            writer.dump(msgspec.to_builtins(value), stream)
            click.echo(stream.getvalue(), nl=False)
        case Format.TABLE:
            Console(highlight=False, soft_wrap=True).print(_Clean(table()))


class _Clean:
    """Content for rich that omits control characters in user-provided text."""

    def __init__(self, table: RenderableType) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._table, options):
            yield segment if segment.control else Segment(clean(segment.text, keep="\n"), segment.style)


def list_fields(fields: Iterable[tuple[str, str | Text]], *, indent: int = 0, gap: int = 2) -> list[Text]:
    """Return a line for each name and value. All values are aligned, `gap` spaces after the longest name.

    This function does not use a grid from rich, because a grid would break a digest at the edge of the terminal.
    """
    rows = tuple(fields)
    width = max((len(name) for name, _ in rows), default=0) + gap
    return [Text.assemble(" " * indent, name.ljust(width), value) for name, value in rows]
