"""Tar archives read in one pass, with bounded memory.

Headers are parsed by the standard library; the walk is ours, because `tarfile` reads extended headers of any size into
memory and would follow more kinds of entries than a cache has.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass

from accelkit.errors import CacheError

_BLOCK = 512
_MAX_EXTENDED_BYTES = 64 << 10
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
    """A stream of pieces, taken in the sizes that a reader wants, without copying where one piece is enough."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def some(self, at_most: int) -> memoryview:
        """The next bytes, one at least and `at_most` at most; none at the end."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return memoryview(b"")
            self._rest = memoryview(piece)
        taken = self._rest[:at_most]
        self._rest = self._rest[len(taken) :]
        return taken

    def exactly(self, size: int) -> bytes:
        """The next `size` bytes.

        Raises:
            CacheError: the stream ends before.
        """
        parts = []
        while size > 0:
            part = self.some(size)
            if not part:
                raise CacheError("an archive ends in the middle")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


@dataclass(frozen=True)
class Entry:
    """A file or a folder of an archive. `size` is in bytes; what follows in the stream is the file's content."""

    name: str
    size: int
    is_folder: bool


def entries(pieces: Pieces) -> Iterator[Entry]:
    """Yield the entries of an archive. After each, its `size` bytes must be taken from `pieces` before the next one.

    The stream is read to its very end, past the end of the archive, so that all of it is proven.

    Raises:
        CacheError: it is no archive, ends in the middle, or has an entry that is neither file nor folder.
    """
    extended: dict[str, str] = {}
    while True:
        header = pieces.exactly(_BLOCK)
        if not any(header):
            break
        info = _parsed(header)
        if info.type in {tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE}:
            extended |= _records(_extended(pieces, info))
            continue
        if info.type == tarfile.XGLTYPE:
            _extended(pieces, info)
            continue
        if info.type == tarfile.GNUTYPE_LONGNAME:
            extended["path"] = _text(_extended(pieces, info).rstrip(b"\0"))
            continue
        yield from _entry(pieces, info, extended)
        extended = {}
    while rest := pieces.some(_BLOCK * _BLOCK):
        if any(rest):
            raise CacheError("something follows the end of an archive")


def _entry(pieces: Pieces, info: tarfile.TarInfo, extended: dict[str, str]) -> Iterator[Entry]:
    name = extended.get("path", info.name)
    if any(key.startswith("GNU.sparse") for key in extended):
        raise CacheError(f"the archive has {name!a}, a sparse file")
    try:
        size = int(extended.get("size", info.size))
    except ValueError as exc:
        raise CacheError(f"the archive gives {name!a} no size that can be read") from exc
    if info.type == tarfile.DIRTYPE:
        yield Entry(name, 0, is_folder=True)
        return
    if info.type not in _FILES or "linkpath" in extended:
        kind = _KINDS.get(info.type, f"an entry of the type {info.type!r}")
        raise CacheError(
            f"the archive has {name!a}, {kind}; a cache has files and folders only",
            next_step="build the image anew from the cache's folder",
        )
    if size < 0:
        raise CacheError(f"the archive gives {name!a} a negative size")
    yield Entry(name, size, is_folder=False)
    pieces.exactly(-size % _BLOCK)


def _parsed(header: bytes) -> tarfile.TarInfo:
    try:
        return tarfile.TarInfo.frombuf(header, "utf-8", "strict")
    except (tarfile.HeaderError, ValueError) as exc:
        raise CacheError(f"a layer is no tar archive, or is damaged: {exc}") from exc


def _extended(pieces: Pieces, info: tarfile.TarInfo) -> bytes:
    if not 0 <= info.size <= _MAX_EXTENDED_BYTES:
        raise CacheError(f"an archive has an extended header of {info.size} bytes")
    content = pieces.exactly(info.size)
    pieces.exactly(-info.size % _BLOCK)
    return content


def _records(content: bytes) -> dict[str, str]:
    """The records of an extended header: length, key=value and a line feed, the length counting all of it."""
    found = {}
    while content:
        length, space, _ = content.partition(b" ")
        if not space or not length.isdigit() or not len(length) + 1 < int(length) <= len(content):
            raise CacheError("an archive has an extended header that cannot be read")
        record, content = content[len(length) + 1 : int(length)], content[int(length) :]
        key, equals, value = record.removesuffix(b"\n").partition(b"=")
        if not equals or not record.endswith(b"\n"):
            raise CacheError("an archive has an extended header that cannot be read")
        name = _text(key)
        if name in {"path", "size", "linkpath"} or name.startswith("GNU.sparse"):
            found[name] = _text(value)
    return found


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as exc:
        raise CacheError("an archive has a name that is not UTF-8") from exc
