"""Assembles unpacked layers: one tree, in which files name the paths that workloads see, and the cache in its place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.folder import CACHE, MANIFEST, Place
from accelkit.kernelcache.extraction.integrity.content import FileContent
from accelkit.kernelcache.formats import ImageLabels
from accelkit.kernelcache.formats.cache import VLLM
from accelkit.kernelcache.formats.mounts import list_trees
from accelkit.kernelcache.formats.relocation.compile_index import INDEX_NAME
from accelkit.kernelcache.formats.relocation.moved_tree import MOST_READ, MovedTree


@dataclass(frozen=True)
class UnpackedLayer:
    """A layer in a folder of its own, and what its files hold, by path."""

    tree: Path
    contents: Mapping[str, FileContent]


def assemble(labels: ImageLabels, place: Place, layers: Sequence[UnpackedLayer]) -> dict[str, FileContent]:
    """Make a cache of its unpacked layers, below the partial folder of its place.

    Args:
        labels: of the image; the format names the cache's folder in it.
        place: where the cache goes.
        layers: the first one lowest.

    Returns:
        What the cache's files hold, by path below the cache.

    Raises:
        CacheError: the layers contradict each other or hold no cache, or a file that names others is not as its
            framework writes it.
        OSError: the disk is full, or cannot be written.
    """
    tree = _merge([each.tree for each in layers])
    cache = tree / f"io.{labels.format}.cache"
    if not cache.is_dir():
        raise CacheError(f"the image has no {cache.name}, although its labels say so")
    manifest = tree / f"io.{labels.format}.manifest" / "manifest.json"
    if manifest.is_file():
        manifest.rename(place.partial / MANIFEST)
    cache.rename(place.partial / CACHE)
    for layer in layers:
        shutil.rmtree(layer.tree, ignore_errors=True)
    place.partial.chmod(0o755)
    below = f"{cache.name}/"
    contents = {
        path.removeprefix(below): content
        for layer in layers
        for path, content in layer.contents.items()
        if path.startswith(below)
    }
    return contents | _relocate(place.partial / CACHE, labels, place.mount_path)


def _merge(trees: list[Path]) -> Path:
    """Move the files of later trees into the first one, over its own, and return it."""
    if not trees:
        raise CacheError("the image has no layers")
    first, *later = trees
    for tree in later:
        for folder, folders, files in os.walk(tree):
            target = first / Path(folder).relative_to(tree)
            for name in folders:
                if (target / name).exists() and not (target / name).is_dir():
                    raise CacheError(f"the image's layers have {name} as a file and as a folder")
                (target / name).mkdir(exist_ok=True)
            for name in files:
                if (target / name).is_dir():
                    raise CacheError(f"the image's layers have {name} as a file and as a folder")
                (Path(folder) / name).replace(target / name)
    return first


def _relocate(cache: Path, labels: ImageLabels, mount_path: str) -> dict[str, FileContent]:
    """Tell the files that name others where workloads see these; return what they hold then."""
    contents = {}
    moved = MovedTree(mount_path, {tree.sub_path: seen for tree, seen in list_trees(labels, mount_path)})
    for folder, _, names in os.walk(cache):
        for path in (Path(folder) / name for name in names):
            within = path.relative_to(cache).as_posix()
            # Only vLLM's own list has that name by right.
            if moved.concerns(within) and (labels.format == VLLM or path.name != INDEX_NAME):
                with path.open("rb") as file:
                    document = file.read(MOST_READ)
                rewritten = moved.rewrite(within, document, lambda named: (cache / named).exists())
                path.write_bytes(rewritten)
                contents[within] = FileContent.of(rewritten)
    return contents
