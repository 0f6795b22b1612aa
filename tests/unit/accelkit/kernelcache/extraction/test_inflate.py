"""Layers of each compression come out as they went in, in pieces of bounded size, however they come in."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
import zstandard
from hand_made_archives import GZIP, PLAIN, ZSTD, packed
from hypothesis import given
from hypothesis import strategies as st

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction.inflate import PIECE_BYTES, decompress
from accelkit.kernelcache.oci.documents import LAYER_COMPRESSION

SKIPPABLE_FRAME = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"note"


def cut(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    """Pieces of these sizes, over and over."""
    start = turn = 0
    while start < len(data):
        size = sizes[turn % len(sizes)]
        yield data[start : start + size]
        start, turn = start + size, turn + 1


@given(
    content=st.binary(max_size=5000),
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=5),
    media_type=st.sampled_from([GZIP, ZSTD, PLAIN]),
)
def test_decompression_accepts_any_chunk_boundaries(content: bytes, sizes: list[int], media_type: str) -> None:
    assert b"".join(decompress(cut(packed(content, media_type), sizes), media_type)) == content


@given(members=st.lists(st.binary(max_size=300), min_size=1, max_size=6), size=st.integers(1, 200))
def test_concatenated_members_decompress_as_one_stream(members: list[bytes], size: int) -> None:
    for media_type in (GZIP, ZSTD):
        whole = b"".join(packed(each, media_type) for each in members)
        assert b"".join(decompress(cut(whole, [size]), media_type)) == b"".join(members)


def test_empty_and_skippable_zstd_frames_do_not_end_stream() -> None:
    frames = [packed(b"one", ZSTD), SKIPPABLE_FRAME, packed(b"", ZSTD), packed(b"two", ZSTD)]
    assert b"".join(decompress(frames, ZSTD)) == b"onetwo"
    assert b"".join(decompress([b"".join(frames)], ZSTD)) == b"onetwo"


@pytest.mark.parametrize("media_type", [GZIP, ZSTD, PLAIN])
def test_decompressed_pieces_are_bounded_for_any_chunk_size(media_type: str) -> None:
    content = bytes(5 * PIECE_BYTES + 3)
    pieces = [len(piece) for piece in decompress([packed(content, media_type)], media_type)]
    assert max(pieces) <= PIECE_BYTES
    assert sum(pieces) == len(content)


@pytest.mark.parametrize("media_type", sorted(LAYER_COMPRESSION))
def test_every_supported_layer_type_is_decompressed(media_type: str) -> None:
    compressed = {"gzip": GZIP, "zstd": ZSTD, "none": PLAIN}[LAYER_COMPRESSION[media_type]]
    assert b"".join(decompress([packed(b"content", compressed)], media_type)) == b"content"


@pytest.mark.parametrize("chunks", [[], [b""], [gzip.compress(b"x" * 999)[:-3]], [gzip.compress(b"x" * 999)[:12]]])
def test_truncated_gzip_is_rejected(chunks: list[bytes]) -> None:
    with pytest.raises(CacheError, match="is truncated"):
        list(decompress(chunks, GZIP))


@pytest.mark.parametrize("position", [-1, -8], ids=["length", "checksum"])
def test_gzip_trailer_is_verified(position: int) -> None:
    data = bytearray(gzip.compress(b"content"))
    data[position] ^= 1
    with pytest.raises(CacheError, match="cannot decompress a layer"):
        list(decompress([bytes(data)], GZIP))


def test_zstd_checksum_is_verified() -> None:
    data = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(b"content"))
    data[-1] ^= 1
    with pytest.raises(CacheError, match="doesn't match checksum"):
        list(decompress([bytes(data)], ZSTD))


@pytest.mark.parametrize("media_type", [GZIP, ZSTD])
def test_invalid_compressed_data_is_rejected(media_type: str) -> None:
    with pytest.raises(CacheError, match="cannot decompress a layer"):
        list(decompress([b"an archive, says the image"], media_type))


def test_unknown_layer_type_is_named_in_error() -> None:
    with pytest.raises(CacheError, match="application/x-lzma"):
        list(decompress([], "application/x-lzma"))
