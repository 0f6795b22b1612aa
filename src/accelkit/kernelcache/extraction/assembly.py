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
from accelkit.kernelcache.formats.mounts import find_path_seen, list_trees
from accelkit.kernelcache.formats.relocation.compile_index import INDEX_NAME, MAX_INDEX_BYTES, relocate_index
from accelkit.kernelcache.formats.relocation.group_files import MAX_GROUP_FILE_BYTES, is_group_file, relocate


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

    def holds(within: str) -> bool:
        return (cache / within).exists()

    def locate(path: str) -> str | None:
        if not path.startswith("/"):
            return find_path_seen(labels, mount_path, path)
        # Trees that were captured beside the root are mostly seen where they were.
        for tree, seen in list_trees(labels, mount_path):
            within = path.removeprefix(tree.path)
            if path.startswith(f"{tree.path}/") and holds(f"{tree.sub_path}{within}"):
                return seen + within
        return None

    for folder, _, names in os.walk(cache):
        within = Path(folder).relative_to(cache).as_posix()
        seen_at = find_path_seen(labels, mount_path, within)
        for name in filter(is_group_file, names):
            path = Path(folder) / name
            path.write_bytes(relocate(_read(path, MAX_GROUP_FILE_BYTES), folder_in_mount=seen_at))
        if labels.format == VLLM and INDEX_NAME in names:
            path = Path(folder) / INDEX_NAME
            path.write_bytes(relocate_index(_read(path, MAX_INDEX_BYTES), holds=holds, locate=locate))


def _read(path: Path, limit: int) -> bytes:
    """Return at most one byte more than the limit, so that what is over it shows."""
    with path.open("rb") as file:
        return file.read(limit + 1)
