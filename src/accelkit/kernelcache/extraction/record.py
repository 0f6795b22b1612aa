"""The completion record: evidence that an extracted cache is complete, with the checks that it passed."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import msgspec

from accelkit.kernelcache.formats import ImageLabels

VERSION = 1
RECORD = "complete.json"
# The folder of the record in a volume whose root contains one cache. Only the process that fills the volume uses the
# locks in this folder.
HIDDEN = ".accelkit"
_MAX_RECORD_BYTES = 1 << 20
_RECORD_MODE = 0o644
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class CompletionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a complete extraction, with the checks that the cache passed.

    Attributes:
        image: the reference with the digest, as it was last verified.
        format: `triton`, `vllm` or `habana`.
        mount_path: the path of the cache in its group files.
        files: the number of files.
        size_bytes: the size of the files.
        policy_digest: the digest of the signer policies that the image satisfied under this name; empty if no signature
            was required.
        signatures: a user-readable description of each signer.
        extracted_at: the time of the extraction, RFC 3339.
        verified_at: the time at which the signatures of the image were last fetched, RFC 3339; empty if no signature
            was required.
        labels: the labels of the image, which are used to check compatibility with cards without the image.
        cpu: the CPU architecture of the image that was selected from an index; empty for an image without an index.
        boot: the boot ID of the host during the extraction; empty if it is unknown.
        content_digest: the digest of the files, computed by `integrity.content`; empty in records from older releases.
        version: the format version of this record.
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


# Created at import, because msgspec prepares a type when it is first used, and crashes if two threads do this
# concurrently.
_record = msgspec.json.Decoder(CompletionRecord)


def read_record(folder: Path) -> CompletionRecord | None:
    """Return the record in a folder; None if it is missing, is invalid or has a different version."""
    try:
        with (folder / RECORD).open("rb") as file:
            record = _record.decode(file.read(_MAX_RECORD_BYTES))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None
    return record if record.version == VERSION else None


def write_record(folder: Path, record: CompletionRecord) -> None:
    """Write or replace the record in a folder in one step.

    Raises:
        OSError: the disk is full or not writable.
    """
    new = folder / f".{RECORD}.new"
    with new.open("wb") as file:
        os.fchmod(file.fileno(), _RECORD_MODE)
        file.write(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    new.rename(folder / RECORD)


def is_whole(record: CompletionRecord, cache: Path) -> bool:
    """Return whether all files of a recorded cache still exist.

    Extraction does not sync the files to the disk, because that would take longer than all other steps. After a power
    failure, files can be empty although the record exists. Therefore, the record is trusted only until the next boot.
    After that, the number of files and their total size are compared with the record. Both may be larger, because
    workloads may have added files.
    """
    if record.boot and record.boot == read_boot_id():
        return True
    files, size_bytes = measure(cache)
    return files >= record.files and size_bytes >= record.size_bytes


def measure(cache: Path) -> tuple[int, int]:
    """Return the number of files below a folder, and their total size in bytes."""
    paths = [Path(folder) / name for folder, _, names in os.walk(cache) for name in names]
    return len(paths), sum(path.lstat().st_size for path in paths)


def format_time(moment: datetime) -> str:
    """Return a time in RFC 3339 format, in whole seconds."""
    return moment.isoformat(timespec="seconds")


def read_boot_id() -> str | None:
    """Return the boot ID of the host; None if it is unknown."""
    try:
        return _BOOT_ID.read_text().strip() or None
    except OSError:
        return None
