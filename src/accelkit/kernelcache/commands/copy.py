"""`accelkit cache copy`."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.kernelcache.commands.options import read_settings, registry_options, run
from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.publishing.copy import CopyResult, copy_image
from accelkit.kernelcache.registry import RegistryClient
from accelkit.model.units import format_bytes
from accelkit.output import list_fields, output_option, print_value


@click.command("copy", short_help="Copy an image with its signatures to another registry.")
@click.argument("source")
@click.argument("target")
@click.option("--no-signatures", is_flag=True, help="Do not copy the signatures.")
@registry_options
@output_option
def copy(source: str, target: str, *, output: str, no_signatures: bool, **options: Any) -> None:
    """Copy the image SOURCE to TARGET, byte for byte, so that its signatures remain valid."""
    copied = run(_copy(source, target, options, signatures=not no_signatures))
    print_value(copied, output, lambda: _render(copied, target))


def _render(copied: CopyResult, target: str) -> RenderableType:
    fields = (
        ("digest", copied.digest),
        ("signed", f"{copied.signatures or 'no'} {'signature' if copied.signatures == 1 else 'signatures'} copied"),
        ("sent", format_bytes(copied.uploaded_bytes)),
    )
    return Group(Text(f"Copied: {target}", style="green"), *list_fields(fields, indent=2))


async def _copy(source: str, target: str, options: dict[str, Any], *, signatures: bool) -> CopyResult:
    async with RegistryClient(read_settings(options)) as client:
        return await copy_image(client, parse_reference(source), client, parse_reference(target), signatures=signatures)
