"""Assembles unpacked layers: one tree, in which files name the paths that workloads see, and the cache in its place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.folder import CACHE, MANIFEST, Place
from accelkit.kernelcache.extraction.record import measure
from accelkit.kernelcache.formats import ImageLabels
from accelkit.kernelcache.formats.cache import VLLM
from accelkit.kernelcache.formats.mounts import list_trees
from accelkit.kernelcache.formats.relocation.compile_index import INDEX_NAME
from accelkit.kernelcache.formats.relocation.moved_tree import MOST_READ, MovedTree


def assemble(labels: ImageLabels, place: Place, trees: list[Path]) -> tuple[int, int]:
    """Make a cache of its unpacked layers, below the partial folder of its place.

    Args:
        labels: of the image; the format names the cache's folder in it.
        place: where the cache goes.
        trees: the layers, the first one lowest.

    Returns:
        How many files there are, and their bytes.

    Raises:
        CacheError: the layers contradict each other or hold no cache, or a file that names others is not as its
            framework writes it.
        OSError: the disk is full, or cannot be written.
    """
    tree = _merge(trees)
    cache = tree / f"io.{labels.format}.cache"
    if not cache.is_dir():
        raise CacheError(f"the image has no {cache.name}, although its labels say so")
    manifest = tree / f"io.{labels.format}.manifest" / "manifest.json"
    if manifest.is_file():
        manifest.rename(place.partial / MANIFEST)
    cache.rename(place.partial / CACHE)
    for each in trees:
        shutil.rmtree(each, ignore_errors=True)
    place.partial.chmod(0o755)
    _relocate(place.partial / CACHE, labels, place.mount_path)
    return measure(place.partial / CACHE)


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


def _relocate(cache: Path, labels: ImageLabels, mount_path: str) -> None:
    """Tell the files that name others where workloads see these."""
    moved = MovedTree(mount_path, {tree.sub_path: seen for tree, seen in list_trees(labels, mount_path)})
    for folder, _, names in os.walk(cache):
        for path in (Path(folder) / name for name in names):
            within = path.relative_to(cache).as_posix()
            # Only vLLM's own list has that name by right.
            if moved.concerns(within) and (labels.format == VLLM or path.name != INDEX_NAME):
                with path.open("rb") as file:
                    document = file.read(MOST_READ)
                path.write_bytes(moved.rewrite(within, document, lambda named: (cache / named).exists()))
