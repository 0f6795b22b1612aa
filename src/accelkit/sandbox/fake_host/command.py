"""The command `accelkit sandbox fake-host`, which writes the files of a host with simulated cards."""

from __future__ import annotations

import os
from pathlib import Path

import click

from accelkit.errors import SandboxError
from accelkit.sandbox.fake_host.host import FakeHost
from accelkit.texts import count_cards

__all__ = ["fake_host"]

_MAX_CARDS = 64


@click.command("fake-host", short_help="Create the files of a simulated host with cards.")
@click.argument("root", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--cards", "wanted", multiple=True, required=True, help="VENDOR:COUNT:MODEL, such as nvidia:2:T4; repeatable."
)
@click.option(
    "--name", default="fake-host", show_default=True, help="Name of the host, which determines the IDs of its cards."
)
@click.option("--device-nodes", is_flag=True, help="Create character devices below dev; requires root.")
def fake_host(root: Path, wanted: tuple[str, ...], name: str, *, device_nodes: bool) -> None:
    """Create the files of the kernel and the vendors' drivers for a host with the given cards in ROOT.

    ROOT must be empty, so that files of a real host are not overwritten.
    """
    if device_nodes and os.geteuid() != 0:
        raise SandboxError(
            "cannot create device nodes: root permissions are required",
            next_step="run the command as root, or omit --device-nodes",
        )
    cards = [_parse(each) for each in wanted]
    try:
        if root.exists() and any(root.iterdir()):
            raise SandboxError(f"cannot write to {root}: the folder is not empty", next_step="set a new folder")
        host = FakeHost(root, name=name, device_nodes=device_nodes)
        for vendor, count, model in cards:
            host.add(vendor, count, model)
    except OSError as exc:
        raise SandboxError(f"cannot write the files of the fake host: {exc}") from exc
    for card in host.cards:
        click.echo(f"{card.bdf}  {card.vendor}  {card.model.name or card.model.device}")
    click.echo(f"{count_cards(len(host.cards))} below {root}")


def _parse(text: str) -> tuple[str, int, str]:
    vendor, _, rest = text.partition(":")
    count, _, model = rest.partition(":")
    if not count.isdecimal() or not model or not 1 <= int(count) <= _MAX_CARDS:
        raise SandboxError(
            f"{text!r} is not a valid list of cards", next_step="write VENDOR:COUNT:MODEL, such as nvidia:2:T4"
        )
    return vendor, int(count), model
