"""Record of a host before its first change, so that removal restores exactly this state.

A record contains the path of the launch file, whether the file existed, its mode and owner, and the digest of its
original bytes, which are stored next to the record. It also contains the digest of the written file, and the files and
folders that accelkit created. Records are never stored in the folder of the launch file, because the kubelet reads
every file in that folder.
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
    """Record of the original launch file and of accelkit's version of the file.

    Attributes:
        path: the path of the launch file.
        existed: whether the launch file existed; if not, mode, owner and sha256 are not used.
        mode: the file mode, as four octal digits.
        sha256: the digest of the original bytes.
        written_sha256: the digest of accelkit's version.
        files: accelkit's files except the launch file.
        folders: folders that accelkit created, the outermost first.
        previous: the digest of the launch file before accelkit's version, whose bytes are stored next to the record.
            Empty if the file did not exist, and None when kube-scheduler is known to run with accelkit's version.
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
    """Return the SHA-256 of the content in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def build_record_path(folder: str, path: str) -> str:
    """Return the path of the record for the launch file at `path`.

    Raises:
        ConfigurationError: `folder` is the folder of the launch file itself.
    """
    if PurePosixPath(folder) == PurePosixPath(path).parent:
        raise ConfigurationError(
            f"cannot use {folder} as backup_dir: it is the folder of {path}",
            next_step="choose another folder, such as /var/lib/accelkit/backup",
        )
    return str(PurePosixPath(folder, f"{PurePosixPath(path).name}.{compute_sha256(path.encode())[:16]}{RECORD_SUFFIX}"))


def build_original_path(folder: str, sha256: str) -> str:
    """Return the path of the file with the original bytes."""
    return str(PurePosixPath(folder, f"{sha256}{ORIGINAL_SUFFIX}"))


def encode_record(record: Record) -> bytes:
    """Return a record as readable JSON."""
    return msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n"


def decode_record(content: bytes, place: str) -> Record:
    """Decode a record.

    Raises:
        ConfigurationError: the record cannot be read, or its format version is different.
    """
    try:
        record = _record.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"cannot read the record {place}: {exc}") from exc
    if record.version != RECORD_VERSION:
        raise ConfigurationError(
            f"cannot read the record {place}: it has version {record.version}, but accelkit supports {RECORD_VERSION}",
            next_step="use the version of accelkit that wrote it",
        )
    return record
