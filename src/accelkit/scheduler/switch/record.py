"""What is recorded of a host before its first change, so that removal restores exactly that.

A record names the launch file, whether it was there, its mode and owner, and the digest of its original bytes, which
lie beside the record; the digest of what we wrote; and which files and folders we made. The kubelet reads every file of
its manifest folder: records never lie beside the launch file.
"""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import Final

import msgspec

from accelkit.errors import ConfigurationError

RECORD_VERSION: Final = 1
RECORD_SUFFIX: Final = ".json"
ORIGINAL_SUFFIX: Final = ".original"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The original of a launch file, and what we made of it.

    Attributes:
        path: of the launch file.
        existed: whether it was there; without it, mode, owner and sha256 say nothing.
        mode: four octal digits.
        sha256: of the original bytes.
        written_sha256: of what we wrote.
        files: of ours, beside the launch file.
        folders: made by us, the outermost first.
        previous: until kube-scheduler was seen running with what we wrote, the digest of the launch file before it,
            whose bytes lie beside the record, empty where there was none; None from then on.
    """

    path: str
    written_sha256: str
    existed: bool
    mode: str = ""
    uid: int = 0
    gid: int = 0
    sha256: str = ""
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    previous: str | None = None
    version: int = RECORD_VERSION


_record = msgspec.json.Decoder(Record)


def compute_sha256(content: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def build_record_path(folder: str, path: str) -> str:
    """Return where the record of `path` lies.

    Raises:
        ConfigurationError: `folder` is the folder of the file itself.
    """
    if PurePosixPath(folder) == PurePosixPath(path).parent:
        raise ConfigurationError(
            f"backup_dir {folder} is the folder of {path}", next_step="choose another one, as /var/lib/accelkit/backup"
        )
    return str(PurePosixPath(folder, f"{PurePosixPath(path).name}.{compute_sha256(path.encode())[:16]}{RECORD_SUFFIX}"))


def build_original_path(folder: str, sha256: str) -> str:
    """Return where original bytes lie."""
    return str(PurePosixPath(folder, f"{sha256}{ORIGINAL_SUFFIX}"))


def encode_record(record: Record) -> bytes:
    """Write a record as JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def decode_record(content: bytes, place: str) -> Record:
    """Read a record.

    Raises:
        ConfigurationError: it cannot be read, or is of another version.
    """
    try:
        record = _record.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"the record {place} cannot be read: {exc}") from exc
    if record.version != RECORD_VERSION:
        raise ConfigurationError(
            f"the record {place} has version {record.version}, this accelkit knows {RECORD_VERSION}",
            next_step="use the accelkit that wrote it",
        )
    return record
