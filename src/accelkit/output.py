"""`-o table|json|yaml`: one way to print any listing."""

from __future__ import annotations

import io
from collections.abc import Callable
from enum import StrEnum

import click
import msgspec
from rich.console import Console, RenderableType
from ruamel.yaml import YAML


class Format(StrEnum):
    """How a listing is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def output_option(command: Callable[..., None]) -> Callable[..., None]:
    """Add `-o` to a command; it arrives as `output`."""
    return click.option(
        *("-o", "--output"),
        type=click.Choice([each.value for each in Format]),
        default="table",
        show_default=True,
        help="How to print it.",
    )(command)


def print_value(value: object, output: str, table: Callable[[], RenderableType]) -> None:
    """Print `value` as JSON or YAML, or what `table` makes of it for people."""
    match Format(output):
        case Format.JSON:
            click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
        case Format.YAML:
            stream = io.StringIO()
            writer = YAML()
            writer.default_flow_style = False
            writer.dump(msgspec.to_builtins(value), stream)
            click.echo(stream.getvalue(), nl=False)
        case Format.TABLE:
            Console(highlight=False, soft_wrap=True).print(table())
