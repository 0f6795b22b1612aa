"""Extraction of a cache to a dedicated volume. The root of the volume contains the files that pods mount.

The cache is first extracted to a hidden folder in the volume, and becomes visible there only after all bytes are
verified. Each top-level entry of the cache is then moved to the root. The record is written last. A volume without a
record is treated as incomplete, regardless of how many files it contains.
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

# Names of entries that file systems create.
_FOREIGN = frozenset({"lost+found"})


async def fill_volume(client: RegistryClient, request: ExtractionRequest) -> CompletionRecord:
    """Fill the volume at `request.base` with a verified cache, unless the volume already contains the cache.

    Raises:
        CacheError: the volume contains other data, the image is not a cache image, or the disk is full.
        UnverifiedError: the signatures of the image do not satisfy the policies; the volume is not filled.
        RegistryError: the registry failed.
    """
    root = request.base.absolute()
    if request.mount_path is None or not request.image.digest:
        raise CacheError(
            "cannot fill a volume without a digest and a mount path",
            next_step="specify the image by digest, and the path at which pods mount the volume",
        )
    digest, mount_path = request.image.digest, Place.of(root, request.image.digest, request.mount_path).mount_path
    record = await run_to_completion(lambda: _read_filled(root, digest, mount_path))
    if record is not None:
        return record
    await run_to_completion(lambda: _require_own(root))
    result = await extract_image(client, replace(request, base=root / HIDDEN))
    try:
        await run_to_completion(lambda: _publish(root, result.place, result.record))
    except OSError as exc:
        raise CacheError(f"cannot write to the volume at {root}: {exc.strerror or exc}") from exc
    return result.record


def check_volume(root: Path, digest: str, mount_path: str) -> CompletionRecord:
    """Check that no file is missing in a filled volume, without writing to the volume, and return the record.

    Raises:
        CacheError: the volume does not contain a cache with this digest, or files are missing.
    """
    place = Place.of(root, digest, mount_path)
    record = _read_filled(root, digest, place.mount_path)
    if record is None:
        raise CacheError(
            f"the volume at {root} is not filled with {digest} for {place.mount_path}",
            next_step="check the Job that filled the volume from which it was copied",
        )
    files, size_bytes = _measure(root)
    if files < record.files or size_bytes < record.size_bytes:
        raise CacheError(
            f"the volume at {root} has {files} of {record.files} files and {size_bytes} of {record.size_bytes} bytes",
            next_step="fill an empty volume again",
        )
    return record


def _read_filled(root: Path, digest: str, mount_path: str) -> CompletionRecord | None:
    record = read_record(root / HIDDEN)
    if record is None:
        return None
    if not record.image.endswith(f"@{digest}") or record.mount_path != mount_path:
        raise CacheError(
            f"the volume at {root} is filled with {record.image} for {record.mount_path}",
            next_step="use an empty volume for each digest",
        )
    return record


def _require_own(root: Path) -> None:
    """Reject a volume with unexpected files, unless it contains the hidden folder from an earlier attempt."""
    try:
        names = {each.name for each in root.iterdir()} - _FOREIGN
    except OSError as exc:
        raise CacheError(f"cannot read the volume at {root}: {exc.strerror or exc}") from exc
    if names and HIDDEN not in names:
        raise CacheError(
            f"the volume at {root} contains unexpected files, for example {min(names)[:80]!a}",
            next_step="use an empty volume",
        )


def _publish(root: Path, place: Place, record: CompletionRecord) -> None:
    for child in sorted(place.cache.iterdir()):
        target = root / child.name
        if child.name == HIDDEN or child.name in _FOREIGN:
            raise CacheError(
                f"the root of the cache contains {child.name!a}, a name that is reserved in volumes",
                next_step="build the image without it",
            )
        # The folder may exist because a Job was killed while it moved files. The current Job has extracted the cache
        # again.
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        child.rename(target)
    # The files are synced before the record is written, because the record implies that they are complete, and the disk
    # may be cloned at any time.
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
