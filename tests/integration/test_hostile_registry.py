"""The registry that misbehaves does so only where it is told to, and as it is told."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from registries import misbehaviour
from registries.hostile import HostileRegistry
from registries.memory import MANIFEST, digest_of

BODY = bytes(range(256)) * 16
REPOSITORY = "team/app"
BLOBS = f"/v2/{REPOSITORY}/blobs/.*"


@pytest.fixture
def registry() -> Iterator[HostileRegistry]:
    with HostileRegistry() as registry:
        yield registry


@pytest.fixture
async def client(registry: HostileRegistry) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(registry.url, timeout=aiohttp.ClientTimeout(total=10)) as session:
        yield session


async def test_a_manifest_is_found_by_tag_and_by_digest(registry, client):
    digest = registry.put_manifest(REPOSITORY, "v1", b"{}")
    for reference in ("v1", digest):
        async with client.get(f"/v2/{REPOSITORY}/manifests/{reference}") as answer:
            assert (answer.status, await answer.read()) == (200, b"{}")
            assert answer.headers["Docker-Content-Digest"] == digest == digest_of(b"{}")
            assert answer.content_type == MANIFEST


async def test_missing_manifest_returns_manifest_unknown(registry, client):
    async with client.get(f"/v2/{REPOSITORY}/manifests/v1") as answer:
        assert answer.status == 404
        assert (await answer.json())["errors"][0]["code"] == "MANIFEST_UNKNOWN"


async def test_a_range_of_a_blob_is_answered_with_206(registry, client):
    digest = registry.put_blob(REPOSITORY, BODY)
    async with client.get(f"/v2/{REPOSITORY}/blobs/{digest}", headers={"Range": "bytes=4000-"}) as answer:
        assert (answer.status, await answer.read()) == (206, BODY[4000:])
        assert answer.headers["Content-Range"] == f"bytes 4000-4095/{len(BODY)}"


async def test_referrers_lists_manifests_with_that_subject(registry, client):
    subject = registry.put_manifest(REPOSITORY, "v1", b"{}")
    document = {"artifactType": "text/x", "subject": {"digest": subject}, "annotations": {"a": "b"}}
    referrer = registry.put_manifest(REPOSITORY, None, json.dumps(document).encode())
    async with client.get(f"/v2/{REPOSITORY}/referrers/{subject}") as answer:
        (found,) = (await answer.json())["manifests"]
    assert (found["digest"], found["artifactType"], found["annotations"]) == (referrer, "text/x", {"a": "b"})


async def test_referrers_path_returns_404_without_referrers_api():
    with HostileRegistry(referrers=False) as old:
        digest = old.put_manifest(REPOSITORY, "v1", b"{}")
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{old.url}/v2/{REPOSITORY}/referrers/{digest}") as it,
        ):
            assert it.status == 404


async def test_a_blob_is_pushed_at_once_or_in_parts(registry, client):
    first, second = b"first", b"second"
    async with client.post(f"/v2/{REPOSITORY}/blobs/uploads/?digest={digest_of(first)}", data=first) as answer:
        assert answer.status == 201
    async with client.post(f"/v2/{REPOSITORY}/blobs/uploads/") as answer:
        location = answer.headers["Location"]
    async with client.patch(location, data=second[:3]) as answer:
        assert (answer.status, answer.headers["Range"]) == (202, "0-2")
    async with client.put(f"{location}?digest={digest_of(second)}", data=second[3:]) as answer:
        assert answer.status == 201
    assert registry.honest.blob(REPOSITORY, digest_of(first)) == first
    assert registry.honest.blob(REPOSITORY, digest_of(second)) == second


async def test_push_with_wrong_digest_is_rejected(registry, client):
    async with client.put(f"/v2/{REPOSITORY}/manifests/{digest_of(b'other')}", data=b"{}") as answer:
        assert answer.status == 400


async def test_handler_runs_before_store_and_can_pass_request_on(registry, client):
    digest = registry.put_blob(REPOSITORY, BODY)
    registry.on("GET", BLOBS, misbehaviour.failing(429, times=2, retry_after="0"))
    answers = []
    for _ in range(3):
        async with client.get(f"/v2/{REPOSITORY}/blobs/{digest}") as answer:
            answers.append((answer.status, answer.headers.get("Retry-After")))
    assert answers == [(429, "0"), (429, "0"), (200, None)]
    assert len(registry.received("GET", BLOBS)) == 3


async def test_truncated_blob_can_be_resumed_with_range(registry, client):
    digest = registry.put_blob(REPOSITORY, BODY)
    registry.on("GET", BLOBS, misbehaviour.cut_after(1000))
    async with client.get(f"/v2/{REPOSITORY}/blobs/{digest}") as answer:
        assert answer.content_length == len(BODY)
        got = await answer.content.readexactly(1000)
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()
    async with client.get(f"/v2/{REPOSITORY}/blobs/{digest}", headers={"Range": "bytes=1000-"}) as answer:
        assert got + await answer.read() == BODY


async def test_ranges_can_be_ignored(registry, client):
    digest = registry.put_blob(REPOSITORY, BODY)
    registry.on("GET", BLOBS, misbehaviour.ignoring_ranges())
    async with client.get(f"/v2/{REPOSITORY}/blobs/{digest}", headers={"Range": "bytes=1000-"}) as answer:
        assert (answer.status, await answer.read()) == (200, BODY)


async def test_redirect_records_authorization_header(registry, client):
    digest = registry.put_blob(REPOSITORY, BODY)
    with HostileRegistry() as elsewhere:
        elsewhere.put_blob(REPOSITORY, BODY)
        registry.on("GET", BLOBS, misbehaviour.redirecting(elsewhere.url))
        async with client.get(f"/v2/{REPOSITORY}/blobs/{digest}", headers={"Authorization": "Bearer x"}) as answer:
            assert await answer.read() == BODY
        assert registry.requests[0].authorization == "Bearer x"
        assert elsewhere.requests[0].path == registry.requests[0].path


async def test_digest_header_can_be_wrong(registry, client):
    registry.put_manifest(REPOSITORY, "v1", b"{}")
    registry.on("*", "/v2/.*/manifests/v1", misbehaviour.lying_digest(digest_of(b"other")))
    async with client.head(f"/v2/{REPOSITORY}/manifests/v1") as answer:
        assert answer.headers["Docker-Content-Digest"] == digest_of(b"other")


async def test_endless_manifest_exceeds_any_limit(registry, client):
    registry.on("GET", "/v2/.*/manifests/v1", misbehaviour.endless(MANIFEST))
    async with client.get(f"/v2/{REPOSITORY}/manifests/v1") as answer:
        assert len(await answer.content.readexactly(8 << 20)) == 8 << 20


async def test_stalled_response_ends_with_registry(client, registry):
    registry.on("GET", "/v2/", misbehaviour.stalled())
    with pytest.raises(TimeoutError):
        await client.get("/v2/", timeout=aiohttp.ClientTimeout(total=0.1))


@pytest.mark.parametrize("endlessly", [False, True])
async def test_referrers_are_paged_linearly_or_in_loop(registry, client, endlessly):
    descriptors = [{"digest": digest_of(bytes([n]))} for n in range(5)]
    url = f"/v2/{REPOSITORY}/referrers/{digest_of(b'')}"
    registry.on("GET", url, misbehaviour.paged_referrers(descriptors, page=2, endlessly=endlessly))
    sizes = []
    while url and len(sizes) < 4:
        async with client.get(url) as answer:
            sizes.append(len(json.loads(await answer.read())["manifests"]))
            url = answer.links["next"]["url"] if answer.links else None
    assert sizes == ([2, 2, 1, 2] if endlessly else [2, 2, 1])


async def test_credentials_can_be_required(registry, client):
    registry.on("*", "/v2/.*", misbehaviour.basic_auth("reader", "secret"))
    async with client.get("/v2/") as answer:
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Basic realm="test"')
    async with client.get("/v2/", headers={"Authorization": aiohttp.encode_basic_auth("reader", "secret")}) as answer:
        assert answer.status == 200


def test_unread_response_leaves_no_open_connection():
    body, transports = bytes(50_000_000), []
    with contextlib.ExitStack() as stack:
        with HostileRegistry() as registry:
            registry.put_blob(REPOSITORY, body)
            registry.on("GET", BLOBS, lambda request: transports.append(request.transport))
            host, _, port = registry.host.partition(":")
            client = stack.enter_context(socket.create_connection((host, int(port)), timeout=60))
            request = f"GET /v2/{REPOSITORY}/blobs/{digest_of(body)} HTTP/1.1\r\nHost: {registry.host}\r\n\r\n"
            client.sendall(request.encode())
            assert client.recv(1000, socket.MSG_WAITALL).startswith(b"HTTP/1.1 200")
        # One that is only closing keeps what it has still to send.
        assert [transport.get_write_buffer_size() for transport in transports] == [0]
