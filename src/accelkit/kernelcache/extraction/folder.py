"""Folders of extracted caches: one for each digest, whole or not there.

    DIR/.sha256-<hex>.lock            held while somebody is at it; there as long as the folder, or who is at it
    DIR/.sha256-<hex>.partial/        what is being extracted; left behind only by a kill, and cleared by the next one
    DIR/.sha256-<hex>.displaced/      what was in its way and had no record to be understood; the same
    DIR/sha256-<hex>/cache/           the framework's files
    DIR/sha256-<hex>/manifest.json    what the image says of them, where it says so
    DIR/sha256-<hex>/complete.json    the completion record
    DIR/sha256-<hex>/signatures.json  the signatures, so that other policies can be asked about it

A cache that workloads see at another path than this folder gets a folder of its own, because its group files say that
path: `sha256-<hex>-<32 digits of the path's hash>`. Older releases took 8, which somebody can find a second path for.
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
# Of a cache, also as older releases named it.
FOLDER_NAME: Final = r"sha256-[0-9a-f]{64}(?:-(?:[0-9a-f]{32}|[0-9a-f]{8}))?"
_PATH_DIGITS: Final = 32
_LOCK_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK_MODE = 0o600
_LOCK_POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Place:
    """Where one cache goes, and the path at which workloads will see it."""

    digest: str
    folder: Path
    mount_path: str

    @classmethod
    def of(cls, base: Path, digest: str, mount_path: str | None) -> Place:
        """Find the place below a base folder; without a mount path, workloads see the place itself.

        Raises:
            CacheError: the mount path is not absolute and plain.
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
        """The framework's files."""
        return self.folder / CACHE

    @property
    def partial(self) -> Path:
        """What is being extracted."""
        return self.folder.with_name(f".{self.folder.name}.partial")

    @property
    def displaced(self) -> Path:
        """What was in the way of a complete cache."""
        return self.folder.with_name(f".{self.folder.name}.displaced")

    @property
    def lock(self) -> Path:
        """The file that is locked meanwhile."""
        return self.folder.with_name(f".{self.folder.name}.lock")

    def publish(self, record: CompletionRecord, *, protected: bool = False) -> None:
        """Make what was extracted visible, with its record, in one step.

        Args:
            record: of it.
            protected: whether to protect its files before that; once they can be seen, somebody may have them open.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        write_record(self.partial, record)
        if protected:
            # The folder that holds the cache's own has to be renamed, and its records are replaced; no pod mounts it.
            protect(self.partial / CACHE)
        # Readers see the old folder whole, or none, or the new one whole.
        if self.folder.exists():
            self.folder.rename(self.displaced)
        self.partial.rename(self.folder)
        _sync_folder(self.folder.parent)

    def renew(self, record: CompletionRecord) -> None:
        """Replace the record of a complete cache; its files stay as they are, because workloads may be using them.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        if record != read_record(self.folder):
            write_record(self.folder, record)

    def clear_leftovers(self) -> None:
        """Delete what an extraction left that did not end, and what was in its way.

        Raises:
            OSError: it cannot be deleted.
        """
        for path in (self.partial, self.displaced):
            delete_tree(path)

    def clear_abandoned(self) -> None:
        """Delete what other extractions into the same base left when they were killed: their locks are free.

        Raises:
            OSError: it cannot be deleted.
        """
        for partial in self.folder.parent.glob(".sha256-*.partial"):
            other = Place(self.digest, partial.with_name(partial.stem.removeprefix(".")), "")
            if (file := _take_lock(other.lock)) is not None:
                try:
                    delete_tree(partial)
                finally:
                    _release_lock(other, file)


def hash_path(mount_path: str) -> str:
    """Return the hash of a mount path in its plain form; the name of its folder ends in its first digits."""
    return hashlib.sha256(mount_path.encode()).hexdigest()


def find_other(place: Place) -> CompletionRecord | None:
    """Return the record of a whole cache for another mount path that lies in a place; None where there is none.

    A folder without a mount path in its name may have been moved, and then it is nobody's.
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
    """Return the record of a cache that is there whole, or None.

    A record of a newer version counts as none: what it means is unknown here. So does that of another place, since
    folders can be copied and renamed.
    """
    record = read_record(place.folder)
    if record is None or record.mount_path != place.mount_path:
        return None
    return record if _is_complete(record, place) else None


def _is_complete(record: CompletionRecord, place: Place) -> bool:
    return record.image.endswith(f"@{place.digest}") and place.cache.is_dir() and is_whole(record, place.cache)


@asynccontextmanager
async def lock_place(place: Place, seconds: float) -> AsyncIterator[None]:
    """Hold a place's lock. It is the kernel's, so it ends with whoever holds it, however that ends.

    Raises:
        CacheError: somebody else holds it for longer than `seconds`, or the folder cannot be written.
    """
    try:
        place.folder.parent.mkdir(parents=True, exist_ok=True)
        deadline = asyncio.get_running_loop().time() + seconds
        while (file := _take_lock(place.lock)) is None:
            if asyncio.get_running_loop().time() > deadline:
                raise CacheError(
                    f"somebody else has been extracting {place.folder.name} for more than {seconds:.0f} s",
                    next_step=f"wait, or find who holds {place.lock}",
                )
            await asyncio.sleep(_LOCK_POLL_SECONDS)
    except OSError as exc:
        raise CacheError(f"{place.folder.parent} cannot be written: {exc.strerror}") from exc
    try:
        yield
    finally:
        _release_lock(place, file)


def _take_lock(path: Path) -> int | None:
    """Lock a file, made where there is none, and return it; None where somebody else holds it."""
    while True:
        file = os.open(path, _LOCK_FLAGS, _LOCK_MODE)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have deleted it, and others have made a new one: then this one locks nothing.
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
    # Without a folder it is of no more use; whoever chooses mount paths would fill the disk with them.
    with contextlib.suppress(OSError):
        if not os.path.lexists(place.folder):
            place.lock.unlink()
    os.close(file)
