"""Archives made byte by byte, since no builder writes what attackers write."""

from __future__ import annotations

import gzip
from collections.abc import Mapping

import zstandard

GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"
PLAIN = "application/vnd.oci.image.layer.v1.tar"

BLOCK = 512
END = bytes(2 * BLOCK)


def header(
    name: bytes, size: int | bytes = 0, *, kind: bytes = b"0", mode: int = 0o644, link: bytes = b"", gnu: bool = False
) -> bytes:
    """A header with a right checksum; a size in bytes stands in its field as it is."""
    field = size if isinstance(size, bytes) else b"%011o\0" % size
    magic = b"ustar  \0" if gnu else b"ustar\x0000"
    owner = b"%07o\0" % 4242
    before = name.ljust(100, b"\0") + b"%07o\0" % mode + owner + owner + field.ljust(12, b"\0") + b"%011o\0" % 0
    after = (kind + link.ljust(100, b"\0") + magic).ljust(BLOCK - len(before) - 8, b"\0")
    return before + b"%06o\0 " % (sum(before) + 8 * ord(" ") + sum(after)) + after


def padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % BLOCK)


def file(name: bytes | str, content: bytes = b"content", *, kind: bytes = b"0", mode: int = 0o644) -> bytes:
    raw = name.encode() if isinstance(name, str) else name
    return header(raw, len(content), kind=kind, mode=mode) + padded(content)


def folder(name: bytes | str, *, mode: int = 0o755) -> bytes:
    raw = name.encode() if isinstance(name, str) else name
    return header(raw, kind=b"5", mode=mode)


def link(name: str, target: str, *, kind: bytes = b"2") -> bytes:
    return header(name.encode(), kind=kind, link=target.encode())


def record(key: bytes, value: bytes) -> bytes:
    """A record of an extended header, which says its own length."""
    rest = b" " + key + b"=" + value + b"\n"
    length = len(rest) + 1
    while len(b"%d" % length) + len(rest) != length:
        length = len(b"%d" % length) + len(rest)
    return b"%d" % length + rest


def extended(content: bytes | Mapping[str, str], *, kind: bytes = b"x", size: int | bytes | None = None) -> bytes:
    """An extended header for the next entry."""
    if not isinstance(content, bytes):
        content = b"".join(record(key.encode(), value.encode()) for key, value in content.items())
    return header(b"PaxHeaders/x", len(content) if size is None else size, kind=kind) + padded(content)


def long_name(name: bytes, *, size: int | bytes | None = None) -> bytes:
    """GNU's way of a name that is longer than its field."""
    content = name + b"\0"
    return header(b"././@LongLink", len(content) if size is None else size, kind=b"L", gnu=True) + padded(content)


def archive(*parts: bytes) -> bytes:
    return b"".join(parts) + END


def packed(content: bytes, media_type: str) -> bytes:
    """Compressed as the media type says."""
    if media_type == GZIP:
        return gzip.compress(content, 1, mtime=0)
    return zstandard.ZstdCompressor(level=1).compress(content) if media_type == ZSTD else content
