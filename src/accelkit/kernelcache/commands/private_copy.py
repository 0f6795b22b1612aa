"""`accelkit cache private-copy`."""

from __future__ import annotations

from pathlib import Path

import click

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.private_copy import make_private_copy
from accelkit.kernelcache.formats.relocation.moved_tree import MovedTree

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("private-copy", short_help="Copy an extracted cache to a writable folder.")
@click.option("--from", "source", type=_FOLDER, required=True, help="Root of the cache.")
@click.option("--to", "target", type=_FOLDER, required=True, help="An empty folder, such as an emptyDir of a pod.")
@click.option("--mount-path", default="", help="Mount path of the copy, if it differs from that of the cache.")
@click.option(
    "--tree",
    "trees",
    multiple=True,
    metavar="FOLDER=PATH",
    help="With --mount-path: a folder of the cache with another mount path; repeatable.",
)
@click.option("--seconds", type=click.IntRange(1), default=900, show_default=True, help="Timeout of the copy.")
def private_copy(source: Path, target: Path, mount_path: str, trees: tuple[str, ...], seconds: int) -> None:
    """Copy a cache once. An existing complete copy is not changed, so changes by the workload are preserved."""
    tree_paths = dict(each.partition("=")[::2] for each in trees)
    if any(not each.startswith("/") for each in (mount_path or "/", *tree_paths.values())):
        raise click.UsageError("--mount-path, and PATH of --tree, must be absolute paths")
    moved = MovedTree(mount_path, tree_paths) if mount_path else None
    try:
        done = make_private_copy(source, target, moved, seconds=seconds)
    except OSError as exc:
        raise CacheError(
            f"cannot copy the cache to {target}: {exc}", next_step="check the node's disk and the pod's user"
        ) from exc
    if done is None:
        click.echo(f"the workload has restricted access to the copy in {target}")
        return
    click.echo(f"copied {done.files} files with {done.size_bytes} bytes to {target}")
    if done.skipped:
        click.echo(f"skipped {done.skipped} links and other entries that are not files", err=True)
