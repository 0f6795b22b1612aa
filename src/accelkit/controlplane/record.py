"""What is recorded of a file before its first change, so that removal restores exactly that.

A record names the file, its mode and owner, the digest of its original bytes, which lie beside the record, and the
digest of what we wrote. The kubelet reads every file of its manifest folder: records never lie beside the file.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

import msgspec

from accelkit.controlplane.configuration import has_extender, without_extender
from accelkit.errors import ConfigurationError

RECORD_VERSION: Final = 1


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The original of a file, and what we made of it."""

    path: str
    mode: str
    uid: int
    gid: int
    sha256: str
    written_sha256: str
    version: int = RECORD_VERSION


@dataclass(frozen=True, kw_only=True)
class Restored:
    """What a file becomes on removal; `exact` where that is the recorded original with its mode and owner."""

    content: bytes
    exact: bool


def digest(content: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def record_path(folder: str, path: str) -> str:
    """Return where the record of `path` lies.

    Raises:
        ConfigurationError: `folder` is the folder of the file itself.
    """
    if PurePosixPath(folder) == PurePosixPath(path).parent:
        raise ConfigurationError(
            f"backup_dir {folder} is the folder of {path}", next_step="choose another one, as /var/lib/accelkit/backup"
        )
    return str(PurePosixPath(folder, f"{PurePosixPath(path).name}.{digest(path.encode())[:16]}.json"))


def original_path(folder: str, sha256: str) -> str:
    """Return where original bytes lie."""
    return str(PurePosixPath(folder, f"{sha256}.original"))


def encode_record(record: Record) -> bytes:
    """Write a record as JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def decode_record(content: bytes, place: str) -> Record:
    """Read a record.

    Raises:
        ConfigurationError: it cannot be read, or is of another version.
    """
    try:
        record = msgspec.json.decode(content, type=Record)
    except msgspec.MsgspecError as exc:
        raise ConfigurationError(f"the record {place} cannot be read: {exc}") from exc
    if record.version != RECORD_VERSION:
        raise ConfigurationError(
            f"the record {place} has version {record.version}, this accelkit knows {RECORD_VERSION}",
            next_step="use the accelkit that wrote it",
        )
    return record


def original_of(current: bytes, record: Record | None, url_prefix: str) -> bytes | None:
    """Return the bytes to record as original before a change, None where the recorded ones still hold.

    A file that others changed since we wrote it has a new original: what they made of it, without our entry.
    """
    if record is not None and record.written_sha256 == digest(current):
        return None
    text = current.decode()
    return without_extender(text, url_prefix).encode() if has_extender(text, url_prefix) else current


def restored(current: bytes, record: Record | None, original: bytes | None, url_prefix: str) -> Restored:
    """Return what the file becomes on removal: its original where it is as we wrote it, else it without our entry."""
    if record is not None and original is not None and record.written_sha256 == digest(current):
        if digest(original) != record.sha256:
            raise ConfigurationError(
                f"the recorded original of {record.path} is damaged: its SHA-256 is not {record.sha256}",
                next_step="restore the file from a backup of your own, or take our entry out by hand",
            )
        return Restored(content=original, exact=True)
    return Restored(content=without_extender(current.decode(), url_prefix).encode(), exact=False)
