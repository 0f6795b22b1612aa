"""Blobs come whole or not at all: resumed where they break off, measured and hashed on the way."""

from __future__ import annotations

import asyncio
import gzip
import os

import pytest
from aiohttp import web
from registries import misbehaviour
from registries.hostile import HONEST
from registries.visiting import REPOSITORY, at, descriptor, visiting

from accelkit.errors import RegistryError
from accelkit.kernelcache.oci.documents import Descriptor
from accelkit.kernelcache.oci.reference import compute_digest
from accelkit.kernelcache.registry import blobs

BODY = os.urandom(300_000)
BLOBS = f"/v2/{REPOSITORY}/blobs/.*"


@pytest.fixture
def registry(registry):
    registry.put_blob(REPOSITORY, BODY)
    return registry


async def streamed(client, registry, blob=None) -> bytes:
    return b"".join([chunk async for chunk in client.stream_blob(at(registry), blob or descriptor(BODY))])


async def test_blob_is_streamed_and_read_completely(registry):
    async with visiting(registry) as client:
        assert await streamed(client, registry) == BODY
        assert await client.read_blob(at(registry), descriptor(BODY), limit=len(BODY)) == BODY


async def test_empty_blob_needs_no_request(registry):
    async with visiting(registry) as client:
        assert await client.read_blob(at(registry), descriptor(b""), limit=0) == b""
    assert registry.requests == []


async def test_blob_over_size_limit_is_not_requested(registry):
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="at most 10 are allowed"):
            await client.read_blob(at(registry), descriptor(BODY), limit=10)
    assert registry.requests == []


async def test_interrupted_blob_is_resumed_without_repeated_bytes(registry):
    registry.on("GET", BLOBS, misbehaviour.cut_after(100_000))
    naps: list[float] = []
    async with visiting(registry, naps=naps) as client:
        assert await streamed(client, registry) == BODY
    assert [each.headers.get("Range") for each in registry.requests] == [None, f"bytes=100000-{len(BODY) - 1}"]
    assert len(naps) == 1


async def test_interrupted_blob_is_completed_if_registry_ignores_ranges(registry):
    registry.on("GET", BLOBS, misbehaviour.ignoring_ranges())
    registry.on("GET", BLOBS, misbehaviour.cut_after(150_000))
    async with visiting(registry) as client:
        assert await streamed(client, registry) == BODY


@pytest.mark.parametrize(
    "said",
    ["bytes 0-299999/300000", "bytes 100001-299999/300000", "", "bytes */300000", "bytes " + "9" * 5000 + "-9/9"],
)
async def test_response_with_unexpected_range_is_rejected(registry, said):
    registry.on("GET", BLOBS, misbehaviour.answering(206, BODY[100_000:], headers={"Content-Range": said}))
    registry.on("GET", BLOBS, misbehaviour.cut_after(100_000))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="a different range"):
            await streamed(client, registry)


async def test_blob_with_changed_content_is_rejected(registry):
    registry.on("GET", BLOBS, misbehaviour.changed(b"x" * len(BODY)))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="changed or damaged"):
            await streamed(client, registry)


async def test_oversized_blob_is_rejected_without_returning_excess_bytes(registry):
    registry.on("GET", BLOBS, misbehaviour.endless("application/octet-stream", begin=BODY))
    got = bytearray()

    async def take(client) -> None:
        async for chunk in client.stream_blob(at(registry), descriptor(BODY)):
            got.extend(chunk)

    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="longer than the 300000 bytes"):
            await take(client)
    assert BODY.startswith(got)


async def test_blob_shorter_than_descriptor_is_rejected(registry):
    blob = Descriptor("", descriptor(BODY).digest, len(BODY) + 1)
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="shorter than the 300001 bytes"):
            await streamed(client, registry, blob)


async def test_download_fails_after_repeated_empty_responses(registry):
    registry.on("GET", BLOBS, misbehaviour.answering(200, b""))
    naps: list[float] = []
    async with visiting(registry, naps=naps) as client:
        with pytest.raises(RegistryError, match="interrupted too often: the response ended early") as refused:
            await streamed(client, registry)
    assert refused.value.retryable
    assert len(naps) == 4


async def test_download_fails_after_too_many_tiny_responses(registry):
    async def crumb(request: web.Request) -> web.StreamResponse:
        honest = await request.app[HONEST].answer(request)
        return web.Response(status=honest.status, body=honest.body[:1], headers=_without_length(honest.headers))

    registry.on("GET", BLOBS, crumb)
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="interrupted too often"):
            await streamed(client, registry)
    assert len(registry.requests) == 33


def _without_length(headers):
    return {name: value for name, value in headers.items() if name not in ("Content-Length", "Content-Type")}


async def test_slow_download_is_aborted(registry, monkeypatch):
    monkeypatch.setattr(blobs, "_GRACE_SECONDS", -1000)
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="is too slow") as refused:
            await streamed(client, registry)
    assert refused.value.retryable


async def test_skipped_bytes_count_towards_download_time(registry, monkeypatch):
    loop = asyncio.get_running_loop()
    now, late = loop.time, 0

    async def from_the_start(request: web.Request) -> web.Response:
        nonlocal late
        late = 1000
        return await misbehaviour.ignoring_ranges()(request)

    registry.on("GET", BLOBS, from_the_start)
    registry.on("GET", BLOBS, misbehaviour.cut_after(150_000))
    monkeypatch.setattr(loop, "time", lambda: now() + late)
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="is too slow: 150000 of"):
            await streamed(client, registry)


async def test_blob_with_content_encoding_is_not_decompressed(registry):
    packed = gzip.compress(BODY)
    registry.put_blob(REPOSITORY, packed)
    registry.on("GET", BLOBS, misbehaviour.answering(200, packed, headers={"Content-Encoding": "gzip"}))
    async with visiting(registry) as client:
        assert await streamed(client, registry, descriptor(packed)) == packed


async def test_stream_uses_registry_if_mirror_lacks_blob(registry, mirror):
    async with visiting(registry, mirror, mirrors={registry.host: (mirror.host,)}) as client:
        assert await streamed(client, registry) == BODY
    assert len(mirror.requests) == 1


async def test_corrupt_stream_from_mirror_is_not_retried_at_registry(registry, mirror):
    mirror.put_blob(REPOSITORY, BODY)
    mirror.on("GET", BLOBS, misbehaviour.changed(b"x" * len(BODY)))
    async with visiting(registry, mirror, mirrors={registry.host: (mirror.host,)}) as client:
        with pytest.raises(RegistryError, match=f"of {mirror.host}/.*changed or damaged"):
            await streamed(client, registry)
    assert registry.requests == []


async def test_corrupt_small_blob_from_mirror_is_read_from_registry(registry, mirror):
    mirror.put_blob(REPOSITORY, BODY)
    mirror.on("GET", BLOBS, misbehaviour.changed(b"x" * len(BODY)))
    async with visiting(registry, mirror, mirrors={registry.host: (mirror.host,)}) as client:
        assert await client.read_blob(at(registry), descriptor(BODY), limit=len(BODY)) == BODY


async def test_stream_closed_early_releases_connection(registry):
    async with visiting(registry) as client:
        stream = client.stream_blob(at(registry), descriptor(BODY))
        assert await anext(stream)
        await stream.aclose()
        assert await client.read_blob(at(registry), descriptor(BODY), limit=len(BODY)) == BODY
    assert compute_digest(BODY) == descriptor(BODY).digest
