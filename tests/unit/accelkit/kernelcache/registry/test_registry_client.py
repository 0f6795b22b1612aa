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


async def test_a_manifest_is_read_by_tag_and_by_digest(registry):
    digest = image(registry, "v1")
    async with visiting(registry) as client:
        by_tag = await client.read_manifest(at(registry, "v1"))
        by_digest = await client.read_manifest(at(registry, digest))
    assert by_tag == by_digest
    assert (by_tag.content, by_tag.digest, by_tag.media_type) == (manifest(), digest, OCI_MANIFEST)
    assert isinstance(by_tag.decode(), Manifest)


async def test_digest_takes_precedence_over_tag(registry):
    pinned = image(registry, "v1")
    image(registry, "v1", annotations={"moved": "on"})
    async with visiting(registry) as client:
        assert (await client.read_manifest(at(registry, "v1").with_digest(pinned))).digest == pinned


async def test_missing_manifest_is_reported_with_404_without_retry(registry):
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="check the name") as refused:
            await client.read_manifest(at(registry, "v1"))
    assert (refused.value.status, refused.value.retryable) == (404, False)
    assert len(registry.received("GET", ".*")) == 1


async def test_manifest_that_does_not_match_digest_is_rejected(registry):
    digest = image(registry)
    registry.on("GET", MANIFESTS, misbehaviour.changed(manifest(annotations={"evil": "1"})))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="with the digest"):
            await client.read_manifest(at(registry, digest))


async def test_false_digest_header_is_rejected(registry):
    image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.lying_digest(compute_digest(b"other")))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="but its content has"):
            await client.read_manifest(at(registry, "v1"))


async def test_error_about_digest_header_is_printable(registry):
    image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.lying_digest("sha256:\x9b2J\u202e"))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="but its content has") as refused:
            await client.read_manifest(at(registry, "v1"))
    assert refused.value.message.isprintable()


async def test_manifest_over_4_mib_is_rejected(registry):
    registry.on("GET", MANIFESTS, misbehaviour.endless(OCI_MANIFEST))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match=f"longer than {4 << 20} bytes"):
            await client.read_manifest(at(registry, "v1"))


@pytest.mark.parametrize("trouble", [misbehaviour.cut_after(10, times=2), misbehaviour.dropped(times=2)])
async def test_interrupted_manifest_is_requested_again(registry, trouble):
    digest = image(registry, "v1")
    registry.on("GET", MANIFESTS, trouble)
    async with visiting(registry) as client:
        assert (await client.read_manifest(at(registry, "v1"))).digest == digest


async def test_server_error_is_retried_with_growing_delays(registry):
    digest = image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.failing(500, times=3))
    naps: list[float] = []
    async with visiting(registry, naps=naps) as client:
        assert (await client.read_manifest(at(registry, "v1"))).digest == digest
    assert [0.25 <= naps[0] <= 0.5, 0.5 <= naps[1] <= 1, 1 <= naps[2] <= 2, len(naps) == 3] == [True] * 4


async def waited(registry, retry_after: str) -> float:
    image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.failing(429, times=1, retry_after=retry_after))
    naps: list[float] = []
    async with visiting(registry, naps=naps) as client:
        await client.read_manifest(at(registry, "v1"))
    (nap,) = naps
    return nap


@pytest.mark.parametrize(("asked", "seconds"), [("7", 7), ("9" * 999, 30)])
async def test_retry_after_is_honored_up_to_limit(registry, asked, seconds):
    assert await waited(registry, asked) == seconds


async def test_retry_after_may_be_a_date(registry):
    assert 10 < await waited(registry, email.utils.formatdate(time.time() + 20, usegmt=True)) <= 20


@pytest.mark.parametrize("asked", ["soon", "-5", "Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 99999 07:28:00 GMT"])
async def test_invalid_retry_after_uses_default_delay(registry, asked):
    assert await waited(registry, asked) <= 0.5


async def test_failure_after_all_attempts_is_retryable(registry):
    registry.on("GET", MANIFESTS, misbehaviour.failing(503))
    async with visiting(registry, attempts=3) as client:
        with pytest.raises(RegistryError, match="HTTP 503") as refused:
            await client.read_manifest(at(registry, "v1"))
    assert (refused.value.status, refused.value.retryable) == (503, True)
    assert len(registry.received("GET", MANIFESTS)) == 3


@pytest.mark.parametrize("status", [400, 403, 501])
async def test_permanent_error_is_not_retried(registry, status):
    registry.on("GET", MANIFESTS, misbehaviour.failing(status))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError) as refused:
            await client.read_manifest(at(registry, "v1"))
    assert (refused.value.status, refused.value.retryable) == (status, False)
    assert len(registry.requests) == 1


async def test_registry_error_text_is_sanitized_and_shortened(registry):
    registry.on("GET", MANIFESTS, misbehaviour.answering(400, b"\x1b]0;owned\x07\nno\x00 " + b"x" * 5000))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError) as refused:
            await client.read_manifest(at(registry, "v1"))
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 400
    assert "]0;owned no x" in refused.value.message


async def test_refused_connection_is_retryable():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        async with visiting(attempts=2) as client:
            with pytest.raises(RegistryError, match="cannot reach") as refused:
                await client.read_manifest(Reference(host, "app", "v1"))
    assert (refused.value.status, refused.value.retryable) == (0, True)
    assert "ssl" not in refused.value.message


@pytest.mark.parametrize(("plain_http", "advised"), [(False, True), (True, False)])
async def test_plain_http_is_suggested_only_if_not_allowed(plain_http, advised):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        async with visiting(plain_names=(host,) if plain_http else (), attempts=1) as client:
            with pytest.raises(RegistryError) as refused:
                await client.read_manifest(Reference(host, "app", "v1"))
    assert ("without TLS" in refused.value.next_step) == advised


async def test_unresolvable_host_is_a_registry_error():
    async with visiting(attempts=1) as client:
        with pytest.raises(RegistryError, match="cannot reach"):
            await client.read_manifest(Reference("registry.invalid", "app", "v1"))


async def test_unresponsive_registry_times_out(registry):
    registry.on("GET", MANIFESTS, misbehaviour.stalled())
    async with visiting(registry, timeout_seconds=0.5, attempts=2) as client:
        with pytest.raises(RegistryError, match="cannot reach") as refused:
            await client.read_manifest(at(registry, "v1"))
    assert refused.value.retryable
    assert len(registry.requests) == 2


async def test_endless_response_headers_time_out(registry):
    registry.on("GET", MANIFESTS, misbehaviour.dripping(headers=True))
    async with visiting(registry, timeout_seconds=0.2, attempts=1) as client:
        with pytest.raises(RegistryError, match="cannot reach") as refused:
            await client.read_manifest(at(registry, "v1"))
    assert refused.value.retryable


async def test_slow_response_body_times_out(registry, monkeypatch):
    monkeypatch.setattr(responses, "_BODY_SECONDS", 0.2)
    registry.on("GET", MANIFESTS, misbehaviour.dripping())
    async with visiting(registry, attempts=1) as client:
        with pytest.raises(RegistryError, match="was interrupted") as refused:
            await client.read_manifest(at(registry, "v1"))
    assert refused.value.retryable


async def test_manifest_with_content_encoding_is_not_decompressed(registry):
    digest = image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.answering(200, manifest(), OCI_MANIFEST, {"Content-Encoding": "gzip"}))
    async with visiting(registry) as client:
        assert (await client.read_manifest(at(registry, "v1"))).digest == digest
    assert registry.requests[0].headers["Accept-Encoding"] == "identity"
