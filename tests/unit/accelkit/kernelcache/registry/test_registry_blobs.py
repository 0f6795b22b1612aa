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


async def test_a_blob_is_streamed_and_read_whole(registry):
    async with visiting(registry) as client:
        assert await streamed(client, registry) == BODY
        assert await client.read_blob(at(registry), descriptor(BODY), limit=len(BODY)) == BODY


async def test_the_empty_blob_needs_no_request(registry):
    async with visiting(registry) as client:
        assert await client.read_blob(at(registry), descriptor(b""), limit=0) == b""
    assert registry.requests == []


async def test_a_blob_over_the_limit_is_not_asked_for(registry):
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="at most 10 are allowed"):
            await client.read_blob(at(registry), descriptor(BODY), limit=10)
    assert registry.requests == []


async def test_a_blob_that_breaks_off_is_resumed_and_each_byte_asked_once(registry):
    registry.on("GET", BLOBS, misbehaviour.cut_after(100_000))
    naps: list[float] = []
    async with visiting(registry, naps=naps) as client:
        assert await streamed(client, registry) == BODY
    assert [each.headers.get("Range") for each in registry.requests] == [None, f"bytes=100000-{len(BODY) - 1}"]
    assert len(naps) == 1


async def test_a_registry_that_ignores_ranges_gives_each_byte_once_all_the_same(registry):
    registry.on("GET", BLOBS, misbehaviour.ignoring_ranges())
    registry.on("GET", BLOBS, misbehaviour.cut_after(150_000))
    async with visiting(registry) as client:
        assert await streamed(client, registry) == BODY


@pytest.mark.parametrize(
    "said",
    ["bytes 0-299999/300000", "bytes 100001-299999/300000", "", "bytes */300000", "bytes " + "9" * 5000 + "-9/9"],
)
async def test_another_range_than_was_asked_for_is_refused(registry, said):
    registry.on("GET", BLOBS, misbehaviour.answering(206, BODY[100_000:], headers={"Content-Range": said}))
    registry.on("GET", BLOBS, misbehaviour.cut_after(100_000))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="a different range"):
            await streamed(client, registry)


async def test_other_bytes_are_refused_at_the_end(registry):
    registry.on("GET", BLOBS, misbehaviour.changed(b"x" * len(BODY)))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="changed or damaged"):
            await streamed(client, registry)


async def test_a_longer_blob_is_refused_and_what_is_too_much_not_given_out(registry):
    registry.on("GET", BLOBS, misbehaviour.endless("application/octet-stream", begin=BODY))
    got = bytearray()

    async def take(client) -> None:
        async for chunk in client.stream_blob(at(registry), descriptor(BODY)):
            got.extend(chunk)

    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="longer than the 300000 bytes"):
            await take(client)
    assert BODY.startswith(got)


async def test_a_shorter_blob_is_refused_as_shorter(registry):
    blob = Descriptor("", descriptor(BODY).digest, len(BODY) + 1)
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="shorter than the 300001 bytes"):
            await streamed(client, registry, blob)


async def test_a_blob_that_gives_nothing_is_given_up(registry):
    registry.on("GET", BLOBS, misbehaviour.answering(200, b""))
    naps: list[float] = []
    async with visiting(registry, naps=naps) as client:
        with pytest.raises(RegistryError, match="interrupted too often: the response ended early") as refused:
            await streamed(client, registry)
    assert refused.value.retryable
    assert len(naps) == 4


async def test_a_blob_that_comes_in_crumbs_is_given_up(registry):
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


async def test_a_blob_that_comes_too_slowly_is_given_up(registry, monkeypatch):
    monkeypatch.setattr(blobs, "_GRACE_SECONDS", -1000)
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="is too slow") as refused:
            await streamed(client, registry)
    assert refused.value.retryable


async def test_bytes_that_are_passed_over_take_time_as_well(registry, monkeypatch):
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


async def test_a_blob_with_a_content_encoding_is_not_unpacked(registry):
    packed = gzip.compress(BODY)
    registry.put_blob(REPOSITORY, packed)
    registry.on("GET", BLOBS, misbehaviour.answering(200, packed, headers={"Content-Encoding": "gzip"}))
    async with visiting(registry) as client:
        assert await streamed(client, registry, descriptor(packed)) == packed


async def test_a_mirror_that_refuses_leaves_the_stream_to_the_registry(registry, mirror):
    async with visiting(registry, mirror, mirrors={registry.host: (mirror.host,)}) as client:
        assert await streamed(client, registry) == BODY
    assert len(mirror.requests) == 1


async def test_what_a_mirror_began_cannot_be_taken_back(registry, mirror):
    mirror.put_blob(REPOSITORY, BODY)
    mirror.on("GET", BLOBS, misbehaviour.changed(b"x" * len(BODY)))
    async with visiting(registry, mirror, mirrors={registry.host: (mirror.host,)}) as client:
        with pytest.raises(RegistryError, match=f"of {mirror.host}/.*changed or damaged"):
            await streamed(client, registry)
    assert registry.requests == []


async def test_a_small_blob_that_a_mirror_garbled_comes_from_the_registry(registry, mirror):
    mirror.put_blob(REPOSITORY, BODY)
    mirror.on("GET", BLOBS, misbehaviour.changed(b"x" * len(BODY)))
    async with visiting(registry, mirror, mirrors={registry.host: (mirror.host,)}) as client:
        assert await client.read_blob(at(registry), descriptor(BODY), limit=len(BODY)) == BODY


async def test_a_stream_that_is_left_early_lets_go_of_its_connection(registry):
    async with visiting(registry) as client:
        stream = client.stream_blob(at(registry), descriptor(BODY))
        assert await anext(stream)
        await stream.aclose()
        assert await client.read_blob(at(registry), descriptor(BODY), limit=len(BODY)) == BODY
    assert compute_digest(BODY) == descriptor(BODY).digest
