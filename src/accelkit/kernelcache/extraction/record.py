"""The completion record beside an extracted cache: that it is whole, and what was checked before."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import msgspec

from accelkit.kernelcache.formats import ImageLabels

VERSION = 1
RECORD = "complete.json"
# The folder with the record in a volume that holds one cache at its root; its locks are for who filled it alone.
HIDDEN = ".accelkit"
_MAX_RECORD_BYTES = 1 << 20
_RECORD_MODE = 0o644
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class CompletionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """That a cache was extracted whole, and what was checked before.

    Attributes:
        image: reference with the digest, as it was verified last.
        format: `triton`, `vllm` or `habana`.
        mount_path: where the group files say that the cache lies.
        files: how many.
        size_bytes: of the files.
        policy_digest: of the signer policies that it satisfied, under that name; empty where nobody asked for a
            signature.
        signatures: who signed, as sentences.
        extracted_at: RFC 3339.
        verified_at: when its signatures were looked for last, RFC 3339; empty where nobody asked for one.
        labels: what the image says of it, so that it can be judged for cards without the image.
        cpu: of the member that was taken where the image has one for each CPU; else empty.
        boot: during which run of the kernel; empty where that is unknown.
        content_digest: of the files, as `integrity.content` computes it; empty in records of older releases.
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
    labels: ImageLabels
    cpu: str = ""
    boot: str = ""
    verified_at: str = ""
    content_digest: str = ""
    version: int = VERSION


# Made here, once: msgspec prepares a type at its first use, and crashes where two threads do so at once.
_record = msgspec.json.Decoder(CompletionRecord)


def read_record(folder: Path) -> CompletionRecord | None:
    """Return the record in a folder; None where there is none, or none that can be understood here."""
    try:
        with (folder / RECORD).open("rb") as file:
            record = _record.decode(file.read(_MAX_RECORD_BYTES))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return record if record.version == VERSION else None


def write_record(folder: Path, record: CompletionRecord) -> None:
    """Write or replace the record in a folder, in one step.

    Raises:
        OSError: the disk is full, or cannot be written.
    """
    new = folder / f".{RECORD}.new"
    with new.open("wb") as file:
        os.fchmod(file.fileno(), _RECORD_MODE)
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(folder / RECORD)


def is_whole(record: CompletionRecord, cache: Path) -> bool:
    """Whether a recorded cache can have lost nothing since.

    The files are not forced to the disk when they are written, because that would take longer than all the rest. After
    a power cut some can be empty although the record is there. So within the same run of the kernel the record is
    trusted, and later the files are counted. Workloads may have added some.
    """
    if record.boot and record.boot == read_boot_id():
        return True
    files, size_bytes = measure(cache)
    return files >= record.files and size_bytes >= record.size_bytes


def measure(cache: Path) -> tuple[int, int]:
    """Return how many files there are below a folder, and their bytes."""
    paths = [Path(folder) / name for folder, _, names in os.walk(cache) for name in names]
    return len(paths), sum(path.lstat().st_size for path in paths)


def format_time(moment: datetime) -> str:
    """Return a moment as RFC 3339, in whole seconds."""
    return moment.isoformat(timespec="seconds")


def read_boot_id() -> str | None:
    """Return the ID of this run of the kernel; None where it is unknown."""
    try:
        return _BOOT_ID.read_text().strip() or None
    except OSError:
        return None
