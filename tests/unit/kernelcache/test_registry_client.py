"""The client asks for manifests and tags, is patient where that helps, and believes nothing it can check."""

from __future__ import annotations

import email.utils
import json
import socket
import ssl
import time
from pathlib import Path

import pytest
from accelkit.errors import CacheError, ConfigurationError, RegistryError
from accelkit.kernelcache.oci import OCI_MANIFEST, Manifest
from accelkit.kernelcache.reference import Reference, digest_of
from aiohttp import web
from registries import misbehaviour
from registries.hostile import HostileRegistry
from registries.visiting import REPOSITORY, at, image, manifest, visiting

MANIFESTS = f"/v2/{REPOSITORY}/manifests/.*"
TAGS = f"/v2/{REPOSITORY}/tags/list"


@pytest.fixture
def registry():
    with HostileRegistry() as registry:
        yield registry


async def test_a_manifest_is_read_by_tag_and_by_digest(registry):
    digest = image(registry, "v1")
    async with visiting(registry) as client:
        by_tag = await client.manifest(at(registry, "v1"))
        by_digest = await client.manifest(at(registry, digest))
    assert by_tag == by_digest
    assert (by_tag.content, by_tag.digest, by_tag.media_type) == (manifest(), digest, OCI_MANIFEST)
    assert isinstance(by_tag.decode(), Manifest)


async def test_a_digest_decides_over_a_tag(registry):
    pinned = image(registry, "v1")
    image(registry, "v1", annotations={"moved": "on"})
    async with visiting(registry) as client:
        assert (await client.manifest(at(registry, "v1").at(pinned))).digest == pinned


async def test_what_is_not_there_is_said_with_404_and_asked_once(registry):
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="check the name") as refused:
            await client.manifest(at(registry, "v1"))
    assert (refused.value.status, refused.value.retryable) == (404, False)
    assert len(registry.received("GET", ".*")) == 1


async def test_other_bytes_than_the_digest_asked_for_are_refused(registry):
    digest = image(registry)
    registry.on("GET", MANIFESTS, misbehaviour.changed(manifest(annotations={"evil": "1"})))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="with the digest"):
            await client.manifest(at(registry, digest))


async def test_a_digest_header_that_lies_is_refused(registry):
    image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.lying_digest(digest_of(b"other")))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="its bytes are"):
            await client.manifest(at(registry, "v1"))


async def test_a_manifest_without_end_is_left_at_4_mib(registry):
    registry.on("GET", MANIFESTS, misbehaviour.endless(OCI_MANIFEST))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match=f"longer than {4 << 20} bytes"):
            await client.manifest(at(registry, "v1"))


async def test_a_manifest_that_breaks_off_is_asked_for_again(registry):
    digest = image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.cut_after(10, times=2))
    async with visiting(registry) as client:
        assert (await client.manifest(at(registry, "v1"))).digest == digest


async def test_a_registry_in_trouble_is_asked_again_after_growing_waits(registry):
    digest = image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.failing(500, times=3))
    naps: list[float] = []
    async with visiting(registry, naps=naps) as client:
        assert (await client.manifest(at(registry, "v1"))).digest == digest
    assert [0.25 <= naps[0] <= 0.5, 0.5 <= naps[1] <= 1, 1 <= naps[2] <= 2, len(naps) == 3] == [True] * 4


async def test_a_dropped_connection_is_tried_again(registry):
    digest = image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.dropped(times=2))
    async with visiting(registry) as client:
        assert (await client.manifest(at(registry, "v1"))).digest == digest


@pytest.mark.parametrize(
    ("asked", "least", "most"), [("7", 7, 7), ("9" * 999, 30, 30), ("٣", 0.25, 3), ("x", 0.25, 0.5)]
)
async def test_retry_after_is_obeyed_within_reason(registry, asked, least, most):
    image(registry, "v1")
    asked = asked if asked.isascii() else email.utils.formatdate(time.time() + 3, usegmt=True)
    registry.on("GET", MANIFESTS, misbehaviour.failing(429, times=1, retry_after=asked))
    naps: list[float] = []
    async with visiting(registry, naps=naps) as client:
        await client.manifest(at(registry, "v1"))
    assert len(naps) == 1 and least <= naps[0] <= most


async def test_after_all_attempts_it_is_given_up_as_a_thing_of_the_moment(registry):
    registry.on("GET", MANIFESTS, misbehaviour.failing(503))
    async with visiting(registry, attempts=3) as client:
        with pytest.raises(RegistryError, match="HTTP 503") as refused:
            await client.manifest(at(registry, "v1"))
    assert (refused.value.status, refused.value.retryable) == (503, True)
    assert len(registry.received("GET", MANIFESTS)) == 3


@pytest.mark.parametrize("status", [400, 403, 501])
async def test_an_answer_for_good_is_not_asked_for_again(registry, status):
    registry.on("GET", MANIFESTS, misbehaviour.failing(status))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError) as refused:
            await client.manifest(at(registry, "v1"))
    assert (refused.value.status, refused.value.retryable) == (status, False)
    assert len(registry.requests) == 1


async def test_what_a_registry_says_reaches_no_terminal_unfiltered(registry):
    registry.on("GET", MANIFESTS, misbehaviour.answering(400, b"\x1b]0;owned\x07\nno\x00 " + b"x" * 5000))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError) as refused:
            await client.manifest(at(registry, "v1"))
    assert refused.value.message.isprintable() and len(refused.value.message) < 400
    assert "]0;owned no x" in refused.value.message


async def test_nobody_listening_is_a_thing_of_the_moment():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{taken.getsockname()[1]}"
        async with visiting(attempts=2) as client:
            with pytest.raises(RegistryError, match="cannot be reached") as refused:
                await client.manifest(Reference(host, "app", "v1"))
    assert (refused.value.status, refused.value.retryable) == (0, True)


async def test_a_host_without_an_address_is_a_registry_error():
    async with visiting(attempts=1) as client:
        with pytest.raises(RegistryError, match="cannot be reached"):
            await client.manifest(Reference("registry.invalid", "app", "v1"))


async def test_silence_has_an_end(registry):
    registry.on("GET", MANIFESTS, misbehaviour.stalled())
    async with visiting(registry, timeout_seconds=0.1, attempts=2) as client:
        with pytest.raises(RegistryError, match="cannot be reached") as refused:
            await client.manifest(at(registry, "v1"))
    assert refused.value.retryable and len(registry.requests) == 2


async def test_the_bytes_of_a_manifest_are_not_unpacked(registry):
    digest = image(registry, "v1")
    registry.on("GET", MANIFESTS, misbehaviour.answering(200, manifest(), OCI_MANIFEST, {"Content-Encoding": "gzip"}))
    async with visiting(registry) as client:
        assert (await client.manifest(at(registry, "v1"))).digest == digest
    assert registry.requests[0].headers["Accept-Encoding"] == "identity"


async def test_plain_http_is_spoken_only_where_it_is_allowed_by_name(registry):
    image(registry, "v1")
    async with visiting(attempts=1) as client:
        with pytest.raises(RegistryError):
            await client.manifest(at(registry, "v1"))
    assert registry.requests == []


async def test_a_proxy_of_the_environment_is_used(registry, monkeypatch):
    digest = image(registry, "v1")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", registry.url)
    elsewhere = Reference("registry.invalid", REPOSITORY, "v1")
    async with visiting(plain_names=("registry.invalid",)) as client:
        assert (await client.manifest(elsewhere)).digest == digest
    assert registry.requests[0].headers["Host"] == "registry.invalid"


async def test_no_proxy_names_hosts_that_are_reached_without(registry, monkeypatch):
    digest = image(registry, "v1")
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with visiting(registry) as client:
        assert (await client.manifest(at(registry, "v1"))).digest == digest


# Certificates


async def test_a_certificate_of_our_own_authority_is_trusted_when_it_is_named(tls: ssl.SSLContext, ca_file: Path):
    with HostileRegistry(tls=tls) as registry:
        digest = image(registry, "v1")
        async with visiting(ca_file=ca_file) as client:
            assert (await client.manifest(at(registry, "v1"))).digest == digest


async def test_a_certificate_nobody_vouches_for_is_refused_at_once(tls: ssl.SSLContext):
    with HostileRegistry(tls=tls) as registry:
        naps: list[float] = []
        async with visiting(naps=naps) as client:
            with pytest.raises(RegistryError, match="certificate that is not trusted") as refused:
                await client.manifest(at(registry, "v1"))
        assert registry.requests == []
    assert naps == [] and not refused.value.retryable


@pytest.mark.parametrize("content", [None, "", "no certificate"])
async def test_a_file_of_authorities_that_cannot_be_used_is_named(tmp_path, content):
    ca_file = tmp_path / "ca.pem"
    if content is not None:
        ca_file.write_text(content)
    with pytest.raises(ConfigurationError, match=r"ca\.pem"):
        async with visiting(ca_file=ca_file):
            pass


# Mirrors


async def test_a_mirror_is_asked_before_the_registry(registry):
    with HostileRegistry() as mirror:
        digest = mirror.put_manifest(f"cache/{REPOSITORY}", "v1", manifest())
        async with visiting(registry, mirror, mirrors={registry.host: (f"{mirror.host}/cache",)}) as client:
            assert (await client.manifest(at(registry, "v1"))).digest == digest
    assert registry.requests == []


@pytest.mark.parametrize("trouble", [misbehaviour.failing(404), misbehaviour.failing(503), misbehaviour.changed(b"{}")])
async def test_a_mirror_that_fails_is_asked_once_and_the_registry_then(registry, trouble):
    digest = image(registry)
    with HostileRegistry() as mirror:
        image(mirror)
        mirror.on("GET", MANIFESTS, trouble)
        naps: list[float] = []
        async with visiting(registry, mirror, naps=naps, mirrors={registry.host: (mirror.host,)}) as client:
            assert (await client.manifest(at(registry, digest))).digest == digest
        assert (len(mirror.requests), naps) == (1, [])


async def test_the_registrys_own_answer_counts_when_all_mirrors_fail(registry):
    with HostileRegistry() as mirror:
        mirror.on("GET", MANIFESTS, misbehaviour.failing(503))
        async with visiting(registry, mirror, mirrors={registry.host: (mirror.host,)}) as client:
            with pytest.raises(RegistryError) as refused:
                await client.manifest(at(registry, "v1"))
    assert refused.value.status == 404


# Tags


async def test_tags_are_listed_over_pages(registry):
    def pages(request: web.Request) -> web.Response:
        more = "last" not in request.query
        headers = {"Link": f'<{request.path}?n=1000&last=b>; rel="next"'} if more else {}
        return web.json_response({"tags": ["a", "b"] if more else ["c"]}, headers=headers)

    registry.on("GET", TAGS, pages)
    async with visiting(registry) as client:
        assert await client.tags(at(registry)) == ["a", "b", "c"]
    assert [each.query for each in registry.requests] == [{"n": "1000"}, {"n": "1000", "last": "b"}]


async def test_a_repository_may_have_no_tags(registry):
    registry.on("GET", TAGS, misbehaviour.answering(200, b'{"name":"team/app","tags":null}'))
    async with visiting(registry) as client:
        assert await client.tags(at(registry)) == []


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"tags":"v1"}', b'{"tags":["../../x"]}', b'{"tags":["\\u001b[2J"]}', b'{"x":' + b"[" * 99_999],
)
async def test_what_is_no_list_of_tags_is_refused(registry, body):
    registry.on("GET", TAGS, misbehaviour.answering(200, body))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="tags"):
            await client.tags(at(registry))


async def test_a_list_that_never_ends_is_left(registry):
    headers = {"Link": f'<{TAGS}>; rel="next"'}
    registry.on("GET", TAGS, misbehaviour.answering(200, b'{"tags":[]}', headers=headers))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="more than 50 pages"):
            await client.tags(at(registry))


async def test_all_pages_together_have_a_limit(registry):
    body = json.dumps({"tags": ["a" * 100] * 40_000}).encode()
    headers = {"Link": f'<{TAGS}>; rel="next"'}
    registry.on("GET", TAGS, misbehaviour.answering(200, body, headers=headers))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="longer than"):
            await client.tags(at(registry))
    assert len(registry.requests) == 5


@pytest.mark.parametrize("link", ["<https://[>; rel=next", "<https://r.io:99999/>; rel=next", "<file:///x>; rel=next"])
async def test_a_next_page_that_cannot_be_read_is_no_end_of_a_list(registry, link):
    registry.on("GET", TAGS, misbehaviour.answering(200, b'{"tags":["a"]}', headers={"Link": link}))
    async with visiting(registry) as client:
        with pytest.raises(RegistryError, match="no place to go|cannot be read"):
            await client.tags(at(registry))


async def test_a_link_to_something_else_ends_a_list(registry):
    headers = {"Link": '<https://docs.example.com>; rel="help", rubbish'}
    registry.on("GET", TAGS, misbehaviour.answering(200, b'{"tags":["a"]}', headers=headers))
    async with visiting(registry) as client:
        assert await client.tags(at(registry)) == ["a"]


async def test_what_refers_to_a_tag_cannot_be_asked(registry):
    async with visiting(registry) as client:
        with pytest.raises(CacheError, match="by digest"):
            await client.referrers(at(registry, "v1"))
