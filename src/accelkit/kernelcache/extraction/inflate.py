"""Layers decompressed as they come, in pieces of bounded size, whatever their compression."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import zstandard
from isal import igzip_lib

from accelkit.errors import CacheError

PIECE_BYTES = 1 << 20
# The largest window that `zstd --long` makes by default; memory of that size is reserved while reading.
_MAX_ZSTD_WINDOW = 1 << 27
_GZIP = "gzip"
_ZSTD = "zstd"
_PLAIN = "none"
_COMPRESSIONS = {
    "application/vnd.oci.image.layer.v1.tar+gzip": _GZIP,
    "application/vnd.docker.image.rootfs.diff.tar.gzip": _GZIP,
    "application/vnd.oci.image.layer.v1.tar+zstd": _ZSTD,
    "application/vnd.docker.image.rootfs.diff.tar.zstd": _ZSTD,
    "application/vnd.oci.image.layer.v1.tar": _PLAIN,
    "application/vnd.docker.image.rootfs.diff.tar": _PLAIN,
    # How the first builders of cache images called them.
    "application/cache.triton.content.layer.v1+triton": _GZIP,
    "application/cache.vllm.content.layer.v1+vllm": _GZIP,
}


def is_layer(media_type: str) -> bool:
    """Whether layers of a media type can be read."""
    return media_type in _COMPRESSIONS


def inflated(chunks: Iterable[bytes], media_type: str) -> Iterator[bytes]:
    """Yield a layer's decompressed bytes in pieces of at most 1 MiB.

    Args:
        chunks: the layer as it comes.
        media_type: of the layer.

    Raises:
        CacheError: it cannot be decompressed, or something follows its end.
    """
    compression = _COMPRESSIONS.get(media_type)
    if compression is None:
        raise CacheError(f"layers of the type {media_type} cannot be read")
    try:
        if compression == _GZIP:
            yield from _gunzip(chunks)
        elif compression == _ZSTD:
            yield from _unzstd(chunks)
        else:
            yield from _sliced(chunks)
    except (igzip_lib.error, zlib.error, zstandard.ZstdError, EOFError) as exc:
        raise CacheError(f"a layer cannot be decompressed: {exc}") from exc


def _gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
    begun = False
    for chunk in chunks:
        data = chunk
        while data or not inflater.needs_input:
            if inflater.eof:
                # Several members in a row are one stream; parallel compressors write such.
                data = inflater.unused_data + data
                if not data:
                    break
                inflater = igzip_lib.IgzipDecompressor(flag=igzip_lib.DECOMP_GZIP)
            piece = inflater.decompress(data, PIECE_BYTES)
            begun, data = True, b""
            if piece:
                yield piece
    if not begun or not inflater.eof:
        raise EOFError("it ends in the middle")


class _Source:
    """Chunks as something with `read`."""

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
    with decompressor.stream_reader(_Source(chunks), read_size=PIECE_BYTES, read_across_frames=True) as reader:
        while piece := reader.read(PIECE_BYTES):
            yield piece


def _sliced(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), PIECE_BYTES):
            yield chunk[start : start + PIECE_BYTES]
