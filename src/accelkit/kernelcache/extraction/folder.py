"""Folders of extracted caches: one for each digest, either complete or missing.

    DIR/.sha256-<hex>.lock            the lock of an extraction. It is deleted after the extraction if the folder does
                                      not exist
    DIR/.sha256-<hex>.partial/        an unfinished extraction. If the process is killed, the next extraction deletes it
    DIR/.sha256-<hex>.displaced/      a previous folder of this name without a readable record. It is deleted in the
                                      same way
    DIR/sha256-<hex>/cache/           the files of the framework
    DIR/sha256-<hex>/manifest.json    the file `manifest.json` of the image, if it exists
    DIR/sha256-<hex>/complete.json    the completion record
    DIR/sha256-<hex>/signatures.json  the signatures, so that they can be verified against other policies

If workloads mount a cache at a path other than this folder, its group files contain that path. The cache is therefore
extracted to a separate folder: `sha256-<hex>-<32 digits of the path's hash>`. Older releases used 8 digits, so an
attacker could find a second path with the same digits.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.integrity.protection import delete_tree, protect
from accelkit.kernelcache.extraction.record import CompletionRecord, is_whole, read_record, write_record

CACHE = "cache"
MANIFEST = "manifest.json"
# The pattern for the name of a cache folder, including the names that older releases used.
FOLDER_NAME: Final = r"sha256-[0-9a-f]{64}(?:-(?:[0-9a-f]{32}|[0-9a-f]{8}))?"
_PATH_DIGITS: Final = 32
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_MODE = 0o600
_LOCK_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Place:
    """The folder of an extracted cache, and the path at which workloads mount it."""

    digest: str
    folder: Path
    mount_path: str

    @classmethod
    def of(cls, base: Path, digest: str, mount_path: str | None) -> Place:
        """Return the place of a cache in a base folder. If no mount path is given, workloads use the folder itself.

        Raises:
            CacheError: the mount path is relative, or contains `.`, `..` or unprintable characters.
        """
        name = digest.replace(":", "-")
        if mount_path is None:
            folder = base.absolute() / name
            return cls(digest, folder, str(folder / CACHE))
        parts = [part for part in mount_path.split("/") if part]
        if not mount_path.startswith("/") or {"..", "."} & set(parts) or not mount_path.isprintable():
            raise CacheError(f"the mount path {mount_path!r} is not an absolute path without '..'")
        path = "/" + "/".join(parts)
        return cls(digest, base.absolute() / f"{name}-{hash_path(path)[:_PATH_DIGITS]}", path)

    @property
    def cache(self) -> Path:
        """The folder with the files of the framework."""
        return self.folder / CACHE

    @property
    def partial(self) -> Path:
        """The folder of an unfinished extraction."""
        return self.folder.with_name(f".{self.folder.name}.partial")

    @property
    def displaced(self) -> Path:
        """The folder to which a previous folder of this name is moved."""
        return self.folder.with_name(f".{self.folder.name}.displaced")

    @property
    def lock(self) -> Path:
        """The file that an extraction locks."""
        return self.folder.with_name(f".{self.folder.name}.lock")

    def publish(self, record: CompletionRecord, *, protected: bool = False) -> None:
        """Make the extracted cache and its record visible in one step.

        Args:
            record: the record of the cache.
            protected: whether to protect the files against writes first, because a process may open them as soon as
                they are visible.

        Raises:
            OSError: the disk is full or not writable.
        """
        write_record(self.partial, record)
        if protected:
            # The parent folder is not protected, because it is renamed and the records in it are replaced. Pods do not
            # mount it.
            protect(self.partial / CACHE)
        # Readers find the complete old folder, no folder, or the complete new folder.
        if self.folder.exists():
            self.folder.rename(self.displaced)
        self.partial.rename(self.folder)
        _sync_folder(self.folder.parent)

    def renew(self, record: CompletionRecord) -> None:
        """Replace the record of a complete cache without changing its files, because workloads may use them.

        Raises:
            OSError: the disk is full or not writable.
        """
        if record != read_record(self.folder):
            write_record(self.folder, record)

    def clear_leftovers(self) -> None:
        """Delete the folders that remain from an interrupted extraction.

        Raises:
            OSError: a folder cannot be deleted.
        """
        for path in (self.partial, self.displaced):
            delete_tree(path)

    def clear_abandoned(self) -> None:
        """Delete unlocked folders in the same base folder that remain from killed extractions.

        Raises:
            OSError: a folder cannot be deleted.
        """
        for partial in self.folder.parent.glob(".sha256-*.partial"):
            other = Place(self.digest, partial.with_name(partial.stem.removeprefix(".")), "")
            if (file := _take_lock(other.lock)) is not None:
                try:
                    delete_tree(partial)
                finally:
                    _release_lock(other, file)


def hash_path(mount_path: str) -> str:
    """Return the hash of a normalized mount path; the name of the folder ends with the first digits of the hash."""
    return hashlib.sha256(mount_path.encode()).hexdigest()


def find_other(place: Place) -> CompletionRecord | None:
    """Return the record of a complete cache in this folder that has another mount path; None if there is none.

    If the name of the folder does not contain the hash of a mount path, also return None: the folder may have been
    moved, so it can be replaced.
    """
    record = read_record(place.folder)
    if record is None or record.mount_path == place.mount_path or place.folder.name == place.digest.replace(":", "-"):
        return None
    return record if _is_complete(record, place) else None


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def read_completed(place: Place) -> CompletionRecord | None:
    """Return the record of a complete cache; None if the cache is missing or incomplete.

    A record in a newer format version is ignored, because its meaning is unknown. A record for another folder is also
    ignored, because folders can be copied and renamed.
    """
    record = read_record(place.folder)
    if record is None or record.mount_path != place.mount_path:
        return None
    return record if _is_complete(record, place) else None


def _is_complete(record: CompletionRecord, place: Place) -> bool:
    return record.image.endswith(f"@{place.digest}") and place.cache.is_dir() and is_whole(record, place.cache)


@asynccontextmanager
async def lock_place(place: Place, seconds: float) -> AsyncIterator[None]:
    """Lock a cache folder until the context exits. If the process terminates, the kernel releases the lock.

    Raises:
        CacheError: another process did not release the lock within `seconds`, or the folder is not writable.
    """
    try:
        place.folder.parent.mkdir(parents=True, exist_ok=True)
        deadline = asyncio.get_running_loop().time() + seconds
        while (file := _take_lock(place.lock)) is None:
            if asyncio.get_running_loop().time() > deadline:
                raise CacheError(
                    f"cannot extract {place.folder.name}: another process has locked it for more than {seconds:.0f} s",
                    next_step=f"wait, or find the process that holds the lock on {place.lock}",
                )
            await asyncio.sleep(_LOCK_POLL_SECONDS)
    except OSError as exc:
        raise CacheError(f"cannot write to {place.folder.parent}: {exc.strerror}") from exc
    try:
        yield
    finally:
        _release_lock(place, file)


def _take_lock(path: Path) -> int | None:
    """Create a file if it does not exist, lock it, and return its descriptor; None if another process has locked it."""
    while True:
        file = os.open(path, _LOCK_FLAGS, _LOCK_MODE)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The previous owner of the lock may have deleted the file, and another process may have created a new file.
            # In that case, the lock on this file has no effect.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file), path.lstat()):
                    return file
        except BlockingIOError:
            os.close(file)
            return None
        except OSError:
            os.close(file)
            raise
        os.close(file)


def _release_lock(place: Place, file: int) -> None:
    # The lock file of a missing folder is not needed, and users could fill the disk with lock files for many mount
    # paths.
    with contextlib.suppress(OSError):
        if not os.path.lexists(place.folder):
            place.lock.unlink()
    os.close(file)
