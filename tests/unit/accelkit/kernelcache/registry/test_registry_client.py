"""The client asks for manifests and tags, is patient where that helps, and believes nothing it can check."""

from __future__ import annotations

import email.utils
import socket
import time

import pytest
from registries import misbehaviour
from registries.visiting import REPOSITORY, at, image, manifest, visiting

from accelkit.errors import RegistryError
from accelkit.kernelcache.oci.documents import OCI_MANIFEST, Manifest
from accelkit.kernelcache.oci.reference import Reference, compute_digest
from accelkit.kernelcache.registry import responses

MANIFESTS = f"/v2/{REPOSITORY}/manifests/.*"
TAGS = f"/v2/{REPOSITORY}/tags/list"


async def test_a_manifest_is_read_by_tag_and_by_digest_which_decides(registry):
    digest = image(registry, "v1")
    async with visiting(registry) as client:
        by_tag = await client.read_manifest(at(registry, "v1"))
        by_digest = await client.read_manifest(at(registry, digest))
    assert by_tag == by_digest
    assert (by_tag.content, by_tag.digest, by_tag.media_type) == (manifest(), digest, OCI_MANIFEST)
    assert isinstance(by_tag.decode(), Manifest)
    pinned = image(registry, "v1")
    image(registry, "v1", annotations={"moved": "on"})
    async with visiting(registry) as client:
        assert (await client.read_manifest(at(registry, "v1").with_digest(pinned))).digest == pinned


async def read(registry, version="v1", **settings):
    async with visiting(registry, **settings) as client:
        return await client.read_manifest(at(registry, version))


async def refusal(registry, words="", **settings) -> RegistryError:
    """The error of a manifest that is refused or cannot be had."""
    with pytest.raises(RegistryError, match=words) as refused:
        await read(registry, **settings)
    return refused.value


async def test_what_is_not_there_is_said_with_404_and_asked_once(registry):
    refused = await refusal(registry, "check the name")
    assert (refused.status, refused.retryable) == (404, False)
    assert len(registry.received("GET", ".*")) == 1


@pytest.mark.parametrize(
    ("handler", "pinned", "words"),
    [
        (misbehaviour.changed(manifest(annotations={"evil": "1"})), True, "with the digest"),
        (misbehaviour.lying_digest(compute_digest(b"other")), False, "its bytes are"),
        (misbehaviour.lying_digest("sha256:\x9b2J\u202e"), False, "its bytes are"),
        (misbehaviour.endless(OCI_MANIFEST), False, f"longer than {4 << 20} bytes"),
    ],
    ids=["other bytes", "lying digest", "digest for the terminal", "endless"],
)
async def test_a_manifest_that_is_not_what_it_says_is_refused(registry, handler, pinned, words):
    digest = image(registry, "v1")
    registry.on("GET", MANIFESTS, handler)
    refused = await refusal(registry, words, version=digest if pinned else "v1")
    assert refused.message.isprintable()


@pytest.mark.parametrize(
    "trouble", [misbehaviour.cut_after(10, times=2), misbehaviour.dropped(times=2)], ids=["broken off", "dropped"]
)
async def test_a_manifest_that_does_not_arrive_is_asked_for_again(registry, trouble):
    digest = image(registry, "v1")
    registry.on("GET", MANIFESTS, trouble)
    assert (await read(registry)).digest == digest


async def test_a_registry_in_trouble_is_asked_again_after_growing_waits(registry):
    digest = image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.failing(500, times=3))
    naps: list[float] = []
    assert (await read(registry, naps=naps)).digest == digest
    assert [0.25 <= naps[0] <= 0.5, 0.5 <= naps[1] <= 1, 1 <= naps[2] <= 2, len(naps) == 3] == [True] * 4


async def waited(registry, retry_after: str) -> float:
    image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.failing(429, times=1, retry_after=retry_after))
    naps: list[float] = []
    await read(registry, naps=naps)
    (nap,) = naps
    return nap


@pytest.mark.parametrize(("asked", "seconds"), [("7", 7), ("9" * 999, 30)])
async def test_retry_after_is_obeyed_within_reason(registry, asked, seconds):
    assert await waited(registry, asked) == seconds


async def test_retry_after_may_be_a_date(registry):
    assert 10 < await waited(registry, email.utils.formatdate(time.time() + 20, usegmt=True)) <= 20


@pytest.mark.parametrize("asked", ["soon", "-5", "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 99999 07:28:00 GMT"])
async def test_retry_after_that_says_nothing_leaves_the_usual_wait(registry, asked):
    assert await waited(registry, asked) <= 0.5


@pytest.mark.parametrize(("status", "asked"), [(503, 3), (400, 1), (403, 1), (501, 1)])
async def test_only_what_is_of_the_moment_is_asked_for_again_until_all_attempts_failed(registry, status, asked):
    registry.on("GET", MANIFESTS, misbehaviour.failing(status))
    refused = await refusal(registry, f"HTTP {status}", attempts=3)
    assert (refused.status, refused.retryable) == (status, asked > 1)
    assert len(registry.received("GET", MANIFESTS)) == asked


async def test_what_a_registry_says_reaches_no_terminal_unfiltered(registry):
    registry.on("GET", MANIFESTS, misbehaviour.answering(400, b"\x1b]0;owned\x07\nno\x00 " + b"x" * 5000))
    refused = await refusal(registry)
    assert refused.message.isprintable()
    assert len(refused.message) < 400
    assert "]0;owned no x" in refused.message


@pytest.mark.parametrize(("plain_http", "advised"), [(False, True), (True, False)])
async def test_nobody_listening_is_a_thing_of_the_moment_and_plain_http_advised_where_not_allowed(plain_http, advised):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        async with visiting(plain_names=(host,) if plain_http else (), attempts=2) as client:
            with pytest.raises(RegistryError, match="cannot be reached") as refused:
                await client.read_manifest(Reference(host, "app", "v1"))
    assert (refused.value.status, refused.value.retryable) == (0, True)
    assert "ssl" not in refused.value.message
    assert ("without TLS" in refused.value.next_step) == advised


async def test_a_host_without_an_address_is_a_registry_error():
    async with visiting(attempts=1) as client:
        with pytest.raises(RegistryError, match="cannot be reached"):
            await client.read_manifest(Reference("registry.invalid", "app", "v1"))


@pytest.mark.parametrize(
    ("handler", "words", "attempts"),
    [
        (misbehaviour.stalled(), "cannot be reached", 2),
        (misbehaviour.dripping(headers=True), "cannot be reached", 1),
        (misbehaviour.dripping(), "broke off", 1),
    ],
    ids=["silence", "headers", "body"],
)
async def test_what_never_ends_has_an_end(registry, monkeypatch, handler, words, attempts):
    monkeypatch.setattr(responses, "_BODY_SECONDS", 0.2)
    registry.on("GET", MANIFESTS, handler)
    refused = await refusal(registry, words, timeout_seconds=0.5, attempts=attempts)
    assert refused.retryable
    assert len(registry.requests) == attempts


async def test_the_bytes_of_a_manifest_are_not_unpacked(registry):
    digest = image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.answering(200, manifest(), OCI_MANIFEST, {"Content-Encoding": "gzip"}))
    assert (await read(registry)).digest == digest
    assert registry.requests[0].headers["Accept-Encoding"] == "identity"
