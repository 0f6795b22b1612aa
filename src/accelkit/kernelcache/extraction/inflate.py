"""Decompression of layers as they arrive, in bounded pieces, for all supported compression formats."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, cast

import zstandard
from isal import igzip_lib

from accelkit.errors import CacheError
from accelkit.kernelcache.oci.documents import LAYER_COMPRESSION

PIECE_BYTES = 1 << 20
# The largest window that `zstd --long` uses by default; the decoder allocates memory of this size.
_MAX_ZSTD_WINDOW = 1 << 27
# The type stubs declare the class as an instance.
_ISAL_ERROR = cast("type[Exception]", igzip_lib.IsalError)


def decompress(chunks: Iterable[bytes], media_type: str) -> Iterator[bytes]:
    """Yield the decompressed bytes of a layer in pieces of at most 1 MiB.

    Args:
        chunks: the bytes of the layer as they arrive.
        media_type: the media type of the layer.

    Raises:
        CacheError: the layer cannot be decompressed, or contains data after the end of the compressed stream.
    """
    compression = LAYER_COMPRESSION.get(media_type)
    if compression is None:
        raise CacheError(f"cannot read a layer of the unsupported type {media_type}")
    try:
        if compression == "gzip":
            yield from _gunzip(chunks)
        elif compression == "zstd":
            yield from _unzstd(chunks)
        else:
            yield from _slice(chunks)
    except (_ISAL_ERROR, zstandard.ZstdError, EOFError) as exc:
        raise CacheError(f"cannot decompress a layer: {exc}") from exc


def _gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    begun = False
    for chunk in chunks:
        data = chunk
        while data or not inflater.needs_input:
            if inflater.eof:
                # A stream may consist of several members; parallel compressors write such streams.
                data = inflater.unused_data + data
                if not data:
                    break
                inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
            piece = inflater.decompress(data, PIECE_BYTES)
            begun, data = True, b""
            if piece:
                yield piece
    if not begun or not inflater.eof:
        raise EOFError("it is truncated")


class _Source:
    """A file-like object that reads from an iterable of chunks."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = memoryview(b"")

    def read(self, size: int = -1) -> bytes:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._rest = memoryview(chunk)
        taken = self._rest if size < 0 else self._rest[:size]
        self._rest = self._rest[len(taken) :]
        return bytes(taken)


def _unzstd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_ZSTD_WINDOW)
    with decompressor.stream_reader(
        cast("IO[bytes]", _Source(chunks)), read_size=PIECE_BYTES, read_across_frames=True
    ) as reader:
        while piece := reader.read(PIECE_BYTES):
            yield piece


def _slice(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), PIECE_BYTES):
            yield chunk[start : start + PIECE_BYTES]
