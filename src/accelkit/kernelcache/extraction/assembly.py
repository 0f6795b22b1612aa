"""Assembles unpacked layers: one tree, group files that name the paths workloads see, the cache in its place."""

from __future__ import annotations

import os
import posixpath
import shutil
from pathlib import Path

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.folder import CACHE, MANIFEST, Place
from accelkit.kernelcache.extraction.record import measure
from accelkit.kernelcache.formats.group_files import MAX_GROUP_FILE_BYTES, is_group_file, relocate


def assemble(cache_format: str, place: Place, trees: list[Path]) -> tuple[int, int]:
    """Make a cache of its unpacked layers, below the partial folder of its place.

    Args:
        cache_format: of the cache, which names its folder in the image.
        place: where the cache goes.
        trees: the layers, the first one lowest.

    Returns:
        How many files there are, and their bytes.

    Raises:
        CacheError: the layers contradict each other or hold no cache, or a group file is not as Triton writes it.
        OSError: the disk is full, or cannot be written.
    """
    tree = _merge(trees)
    cache = tree / f"io.{cache_format}.cache"
    if not cache.is_dir():
        raise CacheError(f"the image has no {cache.name}, although its labels say so")
    manifest = tree / f"io.{cache_format}.manifest" / "manifest.json"
    if manifest.is_file():
        manifest.rename(place.partial / MANIFEST)
    cache.rename(place.partial / CACHE)
    for each in trees:
        shutil.rmtree(each, ignore_errors=True)
    place.partial.chmod(0o755)
    _relocate_group_files(place.partial / CACHE, place.mount_path)
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


def _relocate_group_files(cache: Path, mount_path: str) -> None:
    for folder, _, names in os.walk(cache):
        within = Path(folder).relative_to(cache).as_posix()
        seen_at = posixpath.normpath(posixpath.join(mount_path, within))
        for name in filter(is_group_file, names):
            path = Path(folder) / name
            with path.open("rb") as file:
                document = file.read(MAX_GROUP_FILE_BYTES + 1)
            path.write_bytes(relocate(document, folder_in_mount=seen_at))
