"""Fills a volume of its own with one cache, whose files lie at the volume's root, as pods see it that mount the volume.

Extraction goes into a hidden folder of the volume, where nothing is visible before every byte has been proven. What was
extracted is then moved to the root, file by file of its top level, and last a record is written: a volume without it is
not filled, however much of it is there.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction import CompletionRecord, ExtractionRequest, extract_image
from accelkit.kernelcache.extraction.folder import Place
from accelkit.kernelcache.extraction.reader_thread import run_to_completion
from accelkit.kernelcache.extraction.record import HIDDEN, read_record, write_record
from accelkit.kernelcache.registry import RegistryClient

# What file systems make themselves.
_FOREIGN = frozenset({"lost+found"})


async def fill_volume(client: RegistryClient, request: ExtractionRequest) -> CompletionRecord:
    """Fill the volume at `request.base` with a verified cache; one that is filled with it already is left as it is.

    Raises:
        CacheError: the volume holds something else, the image is none of a cache, or the disk is full.
        UnverifiedError: its signatures do not satisfy the policies; the volume stays empty.
        RegistryError: the registry failed.
    """
    root = request.base.absolute()
    if request.mount_path is None or not request.image.digest:
        raise CacheError(
            "a volume is filled with one digest for one mount path",
            next_step="give the image by digest, and the path at which pods mount the volume",
        )
    digest, mount_path = request.image.digest, Place.of(root, request.image.digest, request.mount_path).mount_path
    found = await run_to_completion(lambda: _read_filled(root, digest, mount_path))
    if found is not None:
        return found
    await run_to_completion(lambda: _require_own(root))
    result = await extract_image(client, replace(request, base=root / HIDDEN))
    try:
        await run_to_completion(lambda: _publish(root, result.place, result.record))
    except OSError as exc:
        raise CacheError(f"the volume at {root} cannot be written: {exc.strerror or exc}") from exc
    return result.record


def check_volume(root: Path, digest: str, mount_path: str) -> CompletionRecord:
    """Check that a volume is filled with a digest and has lost nothing; nothing is written.

    Raises:
        CacheError: it is not.
    """
    place = Place.of(root, digest, mount_path)
    record = _read_filled(root, digest, place.mount_path)
    if record is None:
        raise CacheError(
            f"the volume at {root} is not filled with {digest} for {place.mount_path}",
            next_step="see the Job that filled the volume from which it was copied",
        )
    files, size_bytes = _measure(root)
    if files < record.files or size_bytes < record.size_bytes:
        raise CacheError(
            f"the volume at {root} has {files} files and {size_bytes} bytes of {record.files} and {record.size_bytes}"
        )
    return record


def _read_filled(root: Path, digest: str, mount_path: str) -> CompletionRecord | None:
    record = read_record(root / HIDDEN)
    if record is None:
        return None
    if not record.image.endswith(f"@{digest}") or record.mount_path != mount_path:
        raise CacheError(
            f"the volume at {root} is filled with {record.image} for {record.mount_path}",
            next_step="take an empty volume for each digest",
        )
    return record


def _require_own(root: Path) -> None:
    """Refuse a volume that somebody else has filled; one with our folder was begun by us."""
    try:
        names = {each.name for each in root.iterdir()} - _FOREIGN
    except OSError as exc:
        raise CacheError(f"the volume at {root} cannot be read: {exc.strerror or exc}") from exc
    if names and HIDDEN not in names:
        raise CacheError(f"the volume at {root} holds files of others, as {min(names)[:80]!a}")


def _publish(root: Path, place: Place, record: CompletionRecord) -> None:
    for child in sorted(place.cache.iterdir()):
        target = root / child.name
        if child.name == HIDDEN or child.name in _FOREIGN:
            raise CacheError(f"the cache has {child.name!a} at its root, which a volume has itself")
        # Left by a Job that was killed while it moved files, and then extracted anew.
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        child.rename(target)
    # Before the record, which says that all of it is there; a clone may be made of the disk as it is.
    os.sync()
    write_record(root / HIDDEN, record)
    shutil.rmtree(place.folder)
    os.sync()


def _measure(root: Path) -> tuple[int, int]:
    files = size_bytes = 0
    for folder, folders, names in os.walk(root):
        if Path(folder) == root:
            folders[:] = [each for each in folders if each != HIDDEN and each not in _FOREIGN]
        files += len(names)
        size_bytes += sum((Path(folder) / name).lstat().st_size for name in names)
    return files, size_bytes
