"""`accelkit cache private-copy`."""

from __future__ import annotations

from pathlib import Path

import click

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.private_copy import make_private_copy
from accelkit.kernelcache.formats.relocation.moved_tree import MovedTree

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("private-copy", short_help="Copy an extracted cache to where a workload may write.")
@click.option("--from", "source", type=_FOLDER, required=True, help="Root of the cache.")
@click.option("--to", "target", type=_FOLDER, required=True, help="An empty folder, such as an emptyDir of a pod.")
@click.option("--mount-path", default="", help="Where the workload sees the copy, if the cache was not made for that.")
@click.option(
    "--tree",
    "trees",
    multiple=True,
    metavar="FOLDER=PATH",
    help="With --mount-path: a folder of the cache that the workload sees somewhere else; repeatable.",
)
@click.option(
    "--seconds", type=click.IntRange(1), default=900, show_default=True, help="How long the copy may take at most."
)
def private_copy(source: Path, target: Path, mount_path: str, trees: tuple[str, ...], seconds: int) -> None:
    """Copy a cache once; a copy that is whole stays as the workload has changed it."""
    seen = dict(each.partition("=")[::2] for each in trees)
    if any(not each.startswith("/") for each in (mount_path or "/", *seen.values())):
        raise click.UsageError("--mount-path, and PATH of --tree, are absolute paths")
    moved = MovedTree(mount_path, seen) if mount_path else None
    try:
        done = make_private_copy(source, target, moved, seconds=seconds)
    except OSError as exc:
        raise CacheError(
            f"{target} cannot be filled: {exc}", next_step="look at the node's disk and the pod's user"
        ) from exc
    if done is None:
        click.echo(f"the workload has the copy in {target} for itself")
        return
    click.echo(f"{done.files} files of {done.size_bytes} bytes are in {target}")
    if done.skipped:
        click.echo(f"left out: {done.skipped} links and other things that are no files", err=True)
