"""No image fills a disk or the memory, and none is larger than it says."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from hand_made_archives import (
    END,
    GZIP,
    ZSTD,
    archive,
    file,
    header,
    packed,
)
from registries.hostile import HostileRegistry
from served_images import extract, extract_layer, image_of, put, refused, unsigned, visible

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction import Limits

TOP = "io.triton.cache"
GOOD = file(f"{TOP}/K/good.json", b"{}")
LABEL = "cache.triton.image/cache-size-bytes"


@pytest.mark.parametrize("media_type", [GZIP, ZSTD])
async def test_decompression_bomb_stops_at_the_limit_with_bounded_memory(
    hostile_registry: HostileRegistry, base: Path, media_type: str
) -> None:
    size = 256 << 20
    bomb = io.BytesIO()
    opened = gzip.GzipFile(fileobj=bomb, mode="wb", compresslevel=1) if media_type == GZIP else None
    writer = opened or zstandard.ZstdCompressor(level=1).stream_writer(bomb, closefd=False)
    with writer:
        writer.write(header(f"{TOP}/bomb".encode(), size))
        for _ in range(size >> 20):
            writer.write(bytes(1 << 20))
        writer.write(END)
    limits = Limits(total_bytes=64 << 20, file_bytes=1 << 30)
    tracemalloc.start()
    try:
        await refused(hostile_registry, bomb.getvalue(), media_type, base, "more than 67108864 bytes", limits=limits)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20


async def test_memory_use_is_independent_of_cache_size(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = packed(archive(*(file(f"{TOP}/{number}", bytes(8 << 20)) for number in range(8))), GZIP)
    tracemalloc.start()
    try:
        done = await extract_layer(hostile_registry, layer, GZIP, base, limits=Limits())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done.record.size_bytes == 64 << 20
    assert peak < 16 << 20


async def test_image_larger_than_its_size_label_is_refused(hostile_registry: HostileRegistry, base: Path) -> None:
    layer = packed(archive(*(file(f"{TOP}/{n}", bytes(1 << 20)) for n in range(20))), GZIP)
    labels = {"cache.triton.image/summary": '{"targets":[]}', LABEL: "1000"}
    limits = Limits(file_bytes=1 << 30)
    await refused(
        hostile_registry, layer, GZIP, base, "files of the image have more than", labels=labels, limits=limits
    )


async def test_size_label_over_the_limit_is_refused_before_layer_download(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    labels = {"cache.triton.image/summary": '{"targets":[]}', LABEL: str(1 << 40)}
    layer = packed(archive(GOOD), GZIP)
    await refused(hostile_registry, layer, GZIP, base, "states a size of 1099511627776 bytes", labels=labels)
    assert len(hostile_registry.received("GET", ".*/blobs/.*")) == 1


async def test_layers_with_declared_size_over_the_limit_are_not_downloaded(
    hostile_registry: HostileRegistry, base: Path
) -> None:
    image = put(hostile_registry, image_of([(packed(archive(GOOD), GZIP), GZIP)], sizes=[1 << 40]))
    with pytest.raises(CacheError, match="states a size of"):
        await extract(hostile_registry, unsigned(image, base))
    assert len(hostile_registry.received("GET", ".*/blobs/.*")) == 1
    assert visible(base) == []
