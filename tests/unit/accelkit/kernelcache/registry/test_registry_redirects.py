"""A registry may send us elsewhere, but never with what only it may know, and never out of HTTPS."""

from __future__ import annotations

import contextlib

import pytest
from aiohttp import web
from registries import misbehaviour
from registries.hostile import HostileRegistry
from registries.visiting import REPOSITORY, at, descriptor, image, visiting
from yarl import URL

from accelkit.errors import RegistryError
from accelkit.kernelcache.registry import Login, RegistryCredentials
from accelkit.kernelcache.registry.destinations import require_safe

BODY = bytes(range(256)) * 40
BLOBS = f"/v2/{REPOSITORY}/blobs/.*"
TOKEN = "a-token-of-the-test"  # noqa: S105 - it opens nothing


@pytest.fixture
def registry(registry):
    registry.put_blob(REPOSITORY, BODY)
    return registry


@pytest.fixture
def storage():
    with HostileRegistry() as storage:
        storage.put_blob(REPOSITORY, BODY)
        yield storage


async def pulled(registry, *also, **settings) -> bytes:
    async with visiting(registry, *also, **settings) as client:
        return await client.read_blob(at(registry), descriptor(BODY), limit=len(BODY))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_followed(registry, storage, status):
    registry.on("GET", BLOBS, misbehaviour.redirecting(storage.url, status=status))
    assert await pulled(registry, storage) == BODY


async def test_password_is_not_sent_to_redirect_target(registry, storage):
    registry.on("GET", BLOBS, misbehaviour.redirecting(storage.url))
    registry.on("*", ".*", misbehaviour.basic_auth("user", "password"))
    credentials = RegistryCredentials({registry.host: Login("user", "password")})
    assert await pulled(registry, storage, credentials=credentials) == BODY
    assert registry.requests[-1].authorization is not None
    assert [each.authorization for each in storage.requests] == [None]


async def test_token_is_not_sent_to_redirect_target(registry, storage):
    registry.on("GET", BLOBS, misbehaviour.redirecting(storage.url))
    registry.on("*", "/v2/.*", misbehaviour.token_auth(TOKEN, realm=f"{registry.url}/token", scope="x"))
    registry.on("GET", "/token", misbehaviour.answering(200, b'{"token":"%s"}' % TOKEN.encode()))
    assert await pulled(registry, storage) == BODY
    assert registry.requests[-1].authorization == f"Bearer {TOKEN}"
    assert [each.authorization for each in storage.requests] == [None]


async def test_redirect_target_cannot_request_login(registry, storage):
    registry.on("GET", BLOBS, misbehaviour.redirecting(storage.url))
    storage.on("GET", BLOBS, misbehaviour.basic_auth("user", "password"))
    logins = {registry.host: Login("user", "password"), storage.host: Login("user", "password")}
    with pytest.raises(RegistryError) as refused:
        await pulled(registry, storage, credentials=RegistryCredentials(logins))
    assert refused.value.status == 401
    assert [each.authorization for each in storage.requests] == [None]


async def test_resumed_download_follows_redirect(registry, storage):
    registry.on("GET", BLOBS, misbehaviour.redirecting(storage.url))
    storage.on("GET", BLOBS, misbehaviour.cut_after(1000))
    assert await pulled(registry, storage) == BODY
    assert storage.requests[-1].headers["Range"] == f"bytes=1000-{len(BODY) - 1}"


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://s.example/x", True),
        ("http://s.example:80/x", True),
        ("http://s.example:8080/x", False),
        ("http://s.example:443/x", False),
        ("http://t.example:8080/x", True),
        ("http://t.example:8081/x", False),
        ("http://t.example/x", False),
        ("http://a.s.example/x", False),
        ("http://r.example:5000/x", True),
        ("http://r.example:5001/x", False),
        ("https://anywhere.example:8443/x", True),
    ],
)
def test_plain_http_redirect_is_allowed_only_for_listed_host_and_port(url, allowed):
    base, plain = "http://r.example:5000", {"r.example:5000", "s.example", "t.example:8080"}
    with contextlib.nullcontext() if allowed else pytest.raises(RegistryError, match="not HTTPS"):
        require_safe(URL(url), base=base, plain_http=plain, registry="r.example")


# A host that is allowed without a port opens none but 80.
@pytest.mark.parametrize("plain_names", [(), ("127.0.0.1",)])
async def test_redirect_to_unlisted_plain_http_host_is_rejected(registry, storage, plain_names):
    registry.on("GET", BLOBS, misbehaviour.redirecting(storage.url))
    with pytest.raises(RegistryError, match="not HTTPS"):
        await pulled(registry, plain_names=plain_names)
    assert storage.requests == []


async def test_redirect_loop_is_rejected(registry):
    registry.on("GET", BLOBS, misbehaviour.redirecting(registry.url))
    with pytest.raises(RegistryError, match="redirected more than 5 times"):
        await pulled(registry)
    assert len(registry.requests) == 6


async def test_redirect_from_https_to_http_is_rejected(tls, ca_file, storage):
    with HostileRegistry(tls=tls) as registry:
        registry.on("GET", BLOBS, misbehaviour.redirecting(storage.url))
        with pytest.raises(RegistryError, match="not HTTPS"):
            async with visiting(ca_file=ca_file) as client:
                await client.read_blob(at(registry), descriptor(BODY), limit=len(BODY))
    assert storage.requests == []


@pytest.mark.parametrize(
    "location",
    [
        "https://[",
        "https://[:::]/x",
        "https://h:99999/x",
        "https://h:0/x",
        "https://" + "a" * 64 + ".io/x",
        "https://a..io/x",
        "https://user:secret@h/x",
        "https://user@h/x",
        "https://a\\b/x",
        "/with a blank",
        "https://m\u00fcnchen.example/x",
        "file:///etc/passwd",
        "data:text/plain,x",
        "gopher://h/x",
    ],
)
async def test_invalid_redirect_url_is_rejected(registry, location):
    registry.on("GET", BLOBS, lambda _: web.Response(status=307, headers={"Location": location}))
    with pytest.raises(RegistryError, match="not a valid HTTP URL"):
        await pulled(registry)
    assert len(registry.requests) == 1


async def test_redirect_url_with_credentials_is_rejected(registry):
    location = registry.url.replace("//", "//user:password@") + "/elsewhere"
    registry.on("GET", BLOBS, lambda _: web.Response(status=307, headers={"Location": location}))
    with pytest.raises(RegistryError, match="not a valid HTTP URL"):
        await pulled(registry)


async def test_signed_redirect_url_is_requested_unchanged(registry, storage):
    link = "/a%2Fb/%7Ec?signature=x%2By%2Fz%3D&plain=a+b&empty="
    seen = []

    def take(request: web.Request) -> web.Response:
        seen.append(request.raw_path)
        return web.Response(body=BODY)

    storage.on("GET", "/a.*", take)
    registry.on("GET", BLOBS, lambda _: web.Response(status=307, headers={"Location": storage.url + link}))
    assert await pulled(registry, storage) == BODY
    assert seen == [link]


async def test_redirected_manifest_is_verified_against_digest(registry, storage):
    digest = image(registry)
    registry.on("GET", f"/v2/{REPOSITORY}/manifests/.*", misbehaviour.redirecting(storage.url))
    storage.on("GET", ".*", misbehaviour.answering(200, b"{}"))
    async with visiting(registry, storage) as client:
        with pytest.raises(RegistryError, match="with the digest"):
            await client.read_manifest(at(registry, digest))
