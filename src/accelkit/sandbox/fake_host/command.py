"""`accelkit sandbox fake-host` writes the files of a host with simulated cards."""

from __future__ import annotations

import os
from pathlib import Path

import click

from accelkit.errors import SandboxError
from accelkit.sandbox.fake_host.host import FakeHost
from accelkit.texts import count_cards

__all__ = ["fake_host"]

_MOST_CARDS = 64


@click.command("fake-host", short_help="Write the files of a host with cards.")
@click.argument("root", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--cards", "wanted", multiple=True, required=True, help="VENDOR:COUNT:MODEL, as nvidia:2:T4; may be repeated."
)
@click.option(
    "--name", default="fake-host", show_default=True, help="The host's: hosts of other names have other cards."
)
@click.option("--device-nodes", is_flag=True, help="Make character devices below dev; needs root.")
def fake_host(root: Path, wanted: tuple[str, ...], name: str, *, device_nodes: bool) -> None:
    """Write below ROOT what the kernel and the vendors' drivers show on a host with these cards.

    ROOT must be empty, so that no host's own files are written over.
    """
    if device_nodes and os.geteuid() != 0:
        raise SandboxError("only root can make device nodes", next_step="run it as root, or without --device-nodes")
    cards = [_parse(each) for each in wanted]
    try:
        if root.exists() and any(root.iterdir()):
            raise SandboxError(f"{root} is not empty", next_step="give a new folder")
        host = FakeHost(root, name=name, device_nodes=device_nodes)
        for vendor, count, model in cards:
            host.add(vendor, count, model)
    except OSError as exc:
        raise SandboxError(f"the fake host cannot be written: {exc}") from exc
    for card in host.cards:
        click.echo(f"{card.bdf}  {card.vendor}  {card.model.name or card.model.device}")
    click.echo(f"{count_cards(len(host.cards))} below {root}")


def _parse(text: str) -> tuple[str, int, str]:
    vendor, _, rest = text.partition(":")
    count, _, model = rest.partition(":")
    if not count.isdecimal() or not model or not 1 <= int(count) <= _MOST_CARDS:
        raise SandboxError(f"{text!r} says no cards", next_step="write VENDOR:COUNT:MODEL, as nvidia:2:T4")
    return vendor, int(count), model
