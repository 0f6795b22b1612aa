"""Tar archives read in one pass, with bounded memory.

The standard library parses headers. This module iterates over the entries itself, because `tarfile` reads extended
headers of any size into memory and accepts kinds of entries that a cache does not contain.
"""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

from accelkit.errors import CacheError

_BLOCK = 512
_MAX_EXTENDED_BYTES = 64 << 10
# Limits on extended headers before one entry, and on the padding after the end of the archive. Extended headers and
# padding compress well and are not entries, so the limits on entries do not apply to them.
_MAX_EXTENDED = 8
_MAX_PADDING_BYTES = 1 << 20
_MAX_NAME_CHARACTERS = 255
_RECORD = re.compile(rb"([0-9]{1,9}) ([^=\n]+)=")
_LINE_FEED = ord("\n")
_SIZE = re.compile(r"[0-9]{1,20}", re.ASCII)
_TIME = re.compile(r"([0-9]{1,12})(\.[0-9]*)?", re.ASCII)
_EXTENDED = frozenset({tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME})
_FILES = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE})
_KINDS = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a character device",
    tarfile.BLKTYPE: "a block device",
    tarfile.FIFOTYPE: "a pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}


class Pieces:
    """A stream that arrives in pieces. Callers can read any number of bytes; `read_some` does not copy bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def read_some(self, at_most: int) -> memoryview:
        """Return at least one and at most `at_most` bytes; empty at the end of the stream."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return memoryview(b"")
            self._rest = memoryview(piece)
        taken = self._rest[:at_most]
        self._rest = self._rest[len(taken) :]
        return taken

    def read_exactly(self, size: int) -> bytes:
        """Return the next `size` bytes.

        Raises:
            CacheError: the stream contains fewer bytes.
        """
        parts = []
        while size > 0:
            part = self.read_some(size)
            if not part:
                raise CacheError("the archive is truncated")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


@dataclass(frozen=True)
class ArchiveEntry:
    """A file or a folder of an archive.

    Attributes:
        name: the name in the archive.
        size: the size in bytes; the file's content follows in the stream.
        is_folder: whether the entry is a folder.
        modified: the modification time in whole seconds since 1970; 0 if the archive does not contain it.
    """

    name: str
    size: int
    is_folder: bool
    modified: int = 0


def read_entries(pieces: Pieces) -> Iterator[ArchiveEntry]:
    """Yield the entries of an archive; the caller must read the `size` bytes of each entry before the next iteration.

    The stream is read to its end, even after the end of the archive, so that all bytes are verified.

    Raises:
        CacheError: the stream is not an archive, is truncated, or contains an entry that is neither a file nor a
            folder.
    """
    extended: dict[str, str] = {}
    headers = 0
    while any(header := pieces.read_exactly(_BLOCK)):
        info = _parse_header(header)
        if info.type not in _EXTENDED:
            yield from _read_entry(pieces, info, extended)
            extended, headers = {}, 0
            continue
        headers += 1
        if headers > _MAX_EXTENDED:
            raise CacheError(f"an archive has more than {_MAX_EXTENDED} extended headers in a row")
        content = _read_extended(pieces, info)
        if info.type == tarfile.GNUTYPE_LONGNAME:
            extended["path"] = _decode_text(content.rstrip(b"\0"))
        elif info.type != tarfile.XGLTYPE:
            extended |= _parse_records(content)
    _check_end(pieces)


def _check_end(pieces: Pieces) -> None:
    padding = 0
    while rest := pieces.read_some(_MAX_PADDING_BYTES):
        padding += len(rest)
        if any(rest) or padding > _MAX_PADDING_BYTES:
            raise CacheError("the archive contains trailing data")


def _read_entry(pieces: Pieces, info: tarfile.TarInfo, extended: dict[str, str]) -> Iterator[ArchiveEntry]:
    # A record with an empty value cancels earlier records with the same key.
    name = extended.get("path") or info.name
    quoted = ascii(name[:_MAX_NAME_CHARACTERS])
    if any(key.startswith("GNU.sparse") for key in extended):
        raise CacheError(f"the archive contains {quoted}, a sparse file")
    size = _parse_size(extended["size"], quoted) if extended.get("size") else info.size
    if info.type == tarfile.DIRTYPE:
        yield ArchiveEntry(name, 0, is_folder=True)
        return
    if info.type not in _FILES or "linkpath" in extended:
        kind = _KINDS.get(info.type, f"an entry of the type {info.type!r}")
        raise CacheError(
            f"the archive contains {quoted}, {kind}; a cache may contain only files and folders",
            next_step="build the image again from the folder of the cache",
        )
    if size < 0:
        raise CacheError(f"the archive contains {quoted} with a negative size")
    yield ArchiveEntry(name, size, is_folder=False, modified=_read_time(info, extended))
    pieces.read_exactly(-size % _BLOCK)


def _read_time(info: tarfile.TarInfo, extended: dict[str, str]) -> int:
    """Return the modification time of a file, rounded down to seconds; ignore an invalid time in an extended header."""
    time = _TIME.fullmatch(extended["mtime"]) if extended.get("mtime") else None
    return int(time[1]) if time else max(0, int(info.mtime))


def _parse_size(text: str, quoted: str) -> int:
    if not _SIZE.fullmatch(text):
        raise CacheError(f"the archive contains {quoted} with an invalid size")
    return int(text)


def _parse_header(header: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(header, "utf-8", "strict")
    except (tarfile.HeaderError, ValueError) as exc:
        raise CacheError(f"a layer is not a tar archive, or is damaged: {exc}") from exc


def _read_extended(pieces: Pieces, info: tarfile.TarInfo) -> bytes:
    if not 0 <= info.size <= _MAX_EXTENDED_BYTES:
        raise CacheError(f"an archive has an extended header of {info.size} bytes; the limit is {_MAX_EXTENDED_BYTES}")
    content = pieces.read_exactly(info.size)
    pieces.read_exactly(-info.size % _BLOCK)
    return content


def _parse_records(content: bytes) -> dict[str, str]:
    """Parse the records of an extended header. Each record is a line of the form `LENGTH KEY=VALUE`."""
    found = {}
    start = 0
    while start < len(content):
        match = _RECORD.match(content, start)
        end = start + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(content) or content[end - 1] != _LINE_FEED:
            raise CacheError("an archive has an invalid extended header")
        name, value = _decode_text(match[2]), content[match.end() : end - 1]
        if name in {"path", "size", "linkpath", "mtime"} or name.startswith("GNU.sparse"):
            found[name] = _decode_text(value)
        start = end
    return found


def _decode_text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as exc:
        raise CacheError("an archive contains a name that is not UTF-8") from exc
