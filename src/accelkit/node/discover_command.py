"""The command `accelkit discover`."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from accelkit.errors import ConfigurationError
from accelkit.model.card import Card
from accelkit.model.units import format_bytes
from accelkit.node.discovery import survey
from accelkit.output import output_option, print_value
from accelkit.vendors.profiles import load_profiles


@click.command("discover", short_help="List the cards of this machine.")
@click.option(
    "--host-root",
    envvar="ACCELKIT_HOST_ROOT",
    default="/",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where the host's files lie.",
)
@output_option
def discover_command(host_root: Path, output: str) -> None:
    """List the cards of this machine, as the node agent would find them. It needs no cluster."""
    if not host_root.is_dir():
        raise ConfigurationError(f"the host's root {host_root} is not a folder", next_step="set ACCELKIT_HOST_ROOT")
    cards = [found.card for found in survey(host_root, load_profiles().values())]
    print_value({"cards": cards}, output, lambda: _build_table(cards))


def _build_table(cards: list[Card]) -> Table:
    table = Table("CARD", "VENDOR", "MODEL", "MEMORY", box=None, pad_edge=False)
    for card in cards:
        memory = "unknown" if card.memory_bytes is None else format_bytes(card.memory_bytes)
        table.add_row(card.id, card.vendor, card.model, memory)
    table.caption = None if cards else "no card was found"
    return table
