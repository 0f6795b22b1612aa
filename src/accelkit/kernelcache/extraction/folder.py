"""Where extracted caches lie: one folder per digest, whole or not there.

    DIR/.sha256-<hex>.lock            held while somebody extracts it
    DIR/.sha256-<hex>.partial/        what is being extracted; left behind only by a kill, and cleared by the next try
    DIR/sha256-<hex>/cache/           the framework's files
    DIR/sha256-<hex>/manifest.json    what the image says of them, where it says so
    DIR/sha256-<hex>/complete.json    the completion record

A cache that workloads see at another path than this folder gets a folder of its own, because its group files say that
path: `sha256-<hex>-<8 digits of the path's hash>`.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from accelkit.errors import CacheError

VERSION = 1
CACHE = "cache"
MANIFEST = "manifest.json"
RECORD = "complete.json"
_MAX_RECORD_BYTES = 1 << 20
_LOCK_POLL_SECONDS = 0.1


class CompletionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """That a cache was extracted whole, and what was checked before.

    Attributes:
        image: reference with the digest.
        format: `triton`, `vllm` or `habana`.
        mount_path: where the group files say that the cache lies.
        files: how many.
        size_bytes: of the files.
        policy_digest: of the signer policies that it satisfied; empty where nobody asked for a signature.
        signatures: who signed, as sentences.
        extracted_at: RFC 3339.
        version: of this record.
    """

    image: str
    format: str
    mount_path: str
    files: int
    size_bytes: int
    policy_digest: str
    signatures: tuple[str, ...]
    extracted_at: str
    version: int = VERSION


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
        path = mount_path.rstrip("/") or "/"
        if not path.startswith("/") or {"..", "."} & set(path.split("/")) or not path.isprintable():
            raise CacheError(f"the mount path {mount_path!r} is not an absolute path without '..'")
        suffix = hashlib.sha256(path.encode()).hexdigest()[:8]
        return cls(digest, base.absolute() / f"{name}-{suffix}", path)

    @property
    def cache(self) -> Path:
        """The framework's files."""
        return self.folder / CACHE

    @property
    def partial(self) -> Path:
        """What is being extracted."""
        return self.folder.with_name(f".{self.folder.name}.partial")

    @property
    def lock(self) -> Path:
        """The file that is locked meanwhile."""
        return self.folder.with_name(f".{self.folder.name}.lock")

    def publish(self, record: CompletionRecord) -> None:
        """Make what was extracted visible, with its record, in one step.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        _write_record(self.partial, record)
        # Something without a record is in the way only where somebody meddled; it is not a cache.
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.partial.rename(self.folder)
        _sync_folder(self.folder.parent)

    def renew(self, record: CompletionRecord) -> None:
        """Replace the record of a complete cache; its files stay as they are, because workloads may be using them.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        if record != completed(self):
            _write_record(self.folder, record)

    def clear_partial(self) -> None:
        """Delete what an extraction left that did not end."""
        if self.partial.exists():
            shutil.rmtree(self.partial)


def _write_record(folder: Path, record: CompletionRecord) -> None:
    new = folder / f".{RECORD}.new"
    with new.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(folder / RECORD)


def _sync_folder(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def completed(place: Place) -> CompletionRecord | None:
    """The record of a cache that is there whole, or None.

    A record of a newer version counts as none: what it means is unknown here.
    """
    path = place.folder / RECORD
    try:
        with path.open("rb") as file:
            record = msgspec.json.decode(file.read(_MAX_RECORD_BYTES), type=CompletionRecord)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    usable = record.version == VERSION and record.mount_path == place.mount_path and place.cache.is_dir()
    return record if usable else None


@asynccontextmanager
async def locked(place: Place, seconds: float) -> AsyncIterator[None]:
    """Hold a place's lock. It is the kernel's, so it ends with whoever holds it, however that ends.

    Raises:
        CacheError: somebody else holds it for longer than `seconds`, or the folder cannot be written.
    """
    try:
        place.folder.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise CacheError(f"{place.folder.parent} cannot be written: {exc.strerror}") from exc
    try:
        deadline = asyncio.get_running_loop().time() + seconds
        while not _try_lock(file):
            if asyncio.get_running_loop().time() > deadline:
                raise CacheError(
                    f"somebody else has been extracting {place.folder.name} for more than {seconds:.0f} s",
                    next_step=f"wait, or find who holds {place.lock}",
                )
            await asyncio.sleep(_LOCK_POLL_SECONDS)
        yield
    finally:
        os.close(file)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
