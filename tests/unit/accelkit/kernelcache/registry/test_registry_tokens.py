"""Logging in: passwords and tokens are given to whom they are for, kept while they last, and asked for anew."""

from __future__ import annotations

import base64
import itertools
import json

import aiohttp
import pytest
from aiohttp import web
from registries import misbehaviour
from registries.hostile import HostileRegistry
from registries.memory import refusal
from registries.visiting import REPOSITORY, at, image, visiting

from accelkit.errors import RegistryError
from accelkit.kernelcache.registry import Login, RegistryCredentials, RegistrySettings
from accelkit.kernelcache.registry.authorization import Authorizer, Challenge, parse_challenges
from accelkit.kernelcache.registry.settings import RegistryEndpoint

SCOPE = f"repository:{REPOSITORY}:pull"
REFRESH = Login("", "", "refresh")
BASIC = "Basic " + base64.b64encode(b"user:password").decode()


@pytest.fixture
def registry(registry):
    image(registry, "v1")
    image(registry, "v2")
    return registry


class TokenServer:
    """Answers `/token` of a registry with tokens 1, 2, 3…, and has the registry accept `accepted` alone."""

    def __init__(self, registry: HostileRegistry, realm: str = "", **answer: object) -> None:
        self.accepted = ""
        self.forms: list[dict[str, str]] = []
        self._numbers = itertools.count(1)
        self._answer = answer
        self._realm = realm or f"{registry.url}/token"
        registry.on("*", "/token", self._give)
        registry.on("*", "/v2/.*", self._demand)

    async def _give(self, request: web.Request) -> web.Response:
        if request.method == "POST":
            self.forms.append({name: str(value) for name, value in (await request.post()).items()})
        self.accepted = f"token-{next(self._numbers)}"
        return web.json_response({"token": self.accepted, **self._answer})

    def _demand(self, request: web.Request) -> web.Response | None:
        if request.headers.get("Authorization") == f"Bearer {self.accepted}":
            return None
        challenge = f'Bearer realm="{self._realm}",service="the service",scope="registry:catalog:*"'
        return refusal(401, "UNAUTHORIZED", {"WWW-Authenticate": challenge})


async def fetched(registry, login=None, tags=("v1",), **settings):
    credentials = RegistryCredentials({registry.host: login} if login else {})
    async with visiting(registry, credentials=credentials, **settings) as client:
        for tag in tags:
            await client.read_manifest(at(registry, tag))


# Passwords


async def test_password_is_sent_after_challenge(registry):
    registry.on("*", ".*", misbehaviour.basic_auth("user", "password"))
    await fetched(registry, Login("user", "password"), tags=("v1", "v2"))
    assert [each.authorization for each in registry.requests] == [None, BASIC, BASIC]


async def test_password_is_not_sent_without_challenge(registry):
    await fetched(registry, Login("user", "password"))
    assert [each.authorization for each in registry.requests] == [None]


async def test_wrong_password_is_sent_only_once(registry):
    registry.on("*", ".*", misbehaviour.basic_auth("user", "another"))
    with pytest.raises(RegistryError, match="log in") as refused:
        await fetched(registry, Login("user", "password"))
    assert (refused.value.status, refused.value.retryable) == (401, False)
    assert len(registry.requests) == 2
    assert "password" not in str(refused.value)


@pytest.mark.parametrize("login", [None, REFRESH])
async def test_missing_password_is_reported(registry, login):
    registry.on("*", ".*", misbehaviour.basic_auth("user", "password"))
    with pytest.raises(RegistryError, match="requires a user name and a password"):
        await fetched(registry, login)


# Tokens


async def test_anonymous_token_is_requested_once_and_reused(registry):
    TokenServer(registry)
    await fetched(registry, tags=("v1", "v2"))
    (asked,) = registry.received("GET", "/token")
    assert asked.query == {"service": "the service", "scope": SCOPE}
    assert asked.authorization is None
    assert [each.authorization for each in registry.received("GET", "/v2/.*")] == [None, *["Bearer token-1"] * 2]


async def test_token_is_requested_with_password(registry):
    TokenServer(registry)
    await fetched(registry, Login("user", "password"))
    assert registry.received("GET", "/token")[0].authorization == BASIC


async def test_token_is_requested_with_refresh_token(registry):
    server = TokenServer(registry)
    await fetched(registry, REFRESH)
    (form,) = server.forms
    assert form == {
        "grant_type": "refresh_token",
        "refresh_token": "refresh",
        "service": "the service",
        "scope": SCOPE,
        "client_id": "accelkit",
    }


async def test_rejected_token_is_replaced(registry):
    server = TokenServer(registry)
    async with visiting(registry) as client:
        await client.read_manifest(at(registry, "v1"))
        server.accepted = "none of those given"
        await client.read_manifest(at(registry, "v1"))
    assert len(registry.received("GET", "/token")) == 2
    assert registry.requests[-1].authorization == "Bearer token-2"


async def test_token_is_requested_per_scope(registry):
    TokenServer(registry)
    async with visiting(registry) as client:
        await client.read_manifest(at(registry, "v1"))
        await client.uploads.has_blob(at(registry), "sha256:" + "0" * 64)
    assert [each.query["scope"] for each in registry.received("GET", "/token")] == [
        SCOPE,
        f"repository:{REPOSITORY}:pull,push",
    ]


async def test_query_of_realm_url_is_kept(registry):
    TokenServer(registry, realm=f"{registry.url}/token?account=a%2Fb")
    await fetched(registry)
    assert registry.received("GET", "/token")[0].query == {
        "account": "a/b",
        "service": "the service",
        "scope": SCOPE,
    }


@pytest.mark.parametrize("answer", [{"token": None, "access_token": "x"}, {"token": "", "access_token": "x"}])
async def test_access_token_field_is_accepted(registry, answer):
    registry.on("*", "/v2/.*", misbehaviour.token_auth("x", realm=f"{registry.url}/token", scope="s"))
    registry.on("*", "/token", misbehaviour.answering(200, json.dumps(answer).encode()))
    await fetched(registry)
    assert registry.requests[-1].authorization == "Bearer x"


@pytest.mark.parametrize("trouble", [misbehaviour.failing(503, times=2), misbehaviour.dropped(times=2)])
async def test_failed_token_request_is_retried(registry, trouble):
    TokenServer(registry)
    registry.on("*", "/token", trouble)
    await fetched(registry)
    assert len(registry.received("*", "/token")) == 3


@pytest.mark.parametrize("trouble", [misbehaviour.stalled(), misbehaviour.dripping()])
async def test_endless_token_request_times_out(registry, trouble):
    TokenServer(registry)
    registry.on("*", "/token", trouble)
    with pytest.raises(RegistryError) as refused:
        await fetched(registry, timeout_seconds=0.2, attempts=1)
    assert refused.value.retryable


@pytest.mark.parametrize("login", [Login("user", "password"), REFRESH])
async def test_redirect_of_token_server_is_rejected(registry, login):
    TokenServer(registry)
    with HostileRegistry() as other:
        registry.on("*", "/token", misbehaviour.redirecting(other.url))
        with pytest.raises(RegistryError, match="refused a token"):
            await fetched(registry, login)
        assert other.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        misbehaviour.answering(200, b""),
        misbehaviour.answering(200, b"{}"),
        misbehaviour.answering(200, b'{"token":7}'),
        misbehaviour.answering(200, b'{"token":" "}'),
        misbehaviour.answering(200, b'{"token":"a\\r\\nEvil: 1"}'),
        misbehaviour.answering(200, '{"token":"ü"}'.encode()),
        misbehaviour.answering(200, b'{"x":' + b"[" * 100_000),
        misbehaviour.failing(401),
        misbehaviour.endless("application/json"),
    ],
    ids=range(9),
)
async def test_token_server_without_valid_token_is_named_in_error(registry, answer):
    TokenServer(registry)
    registry.on("*", "/token", answer)
    with pytest.raises(RegistryError, match=r"127\.0\.0\.1") as refused:
        await fetched(registry, Login("user", "password"))
    assert not refused.value.retryable
    assert len(registry.received("*", "/token")) == 1


@pytest.mark.parametrize(
    ("realm", "words"),
    [
        ("http://127.0.0.2:9/token", "not HTTPS"),
        ("ftp://127.0.0.1/token", "not a valid HTTP URL"),
        ("https://user:password@127.0.0.1/token", "not a valid HTTP URL"),
        ("https://[", "not a valid HTTP URL"),
        ("https://" + "a" * 64 + ".io/token", "not a valid HTTP URL"),
    ],
)
async def test_unsafe_realm_url_is_rejected_before_password_is_sent(registry, realm, words):
    TokenServer(registry, realm=realm)
    with pytest.raises(RegistryError, match=words):
        await fetched(registry, Login("user", "password"))


async def test_unsupported_authentication_scheme_is_rejected(registry):
    answer = misbehaviour.answering(401, headers={"WWW-Authenticate": "Negotiate"})
    registry.on("*", "/v2/.*", answer)
    with pytest.raises(RegistryError) as refused:
        await fetched(registry, Login("user", "password"))
    assert refused.value.status == 401
    assert len(registry.requests) == 1


@pytest.mark.parametrize(
    ("said", "lasts"), [(None, 50), (300, 290), (5, 1), (-1, 1), (1.5e9, 3590), (10**400 // 10**100, 3590), (60.0, 50)]
)
async def test_token_is_used_until_shortly_before_expiry(registry, said, lasts):
    TokenServer(registry, **({} if said is None else {"expires_in": said}))
    now = 1000.0
    settings = RegistrySettings(plain_http=frozenset({registry.host}))
    endpoint = RegistryEndpoint(registry.host, registry.url, REPOSITORY)
    async with aiohttp.ClientSession() as session:
        authorizer = Authorizer(session, settings, lambda: now)
        await authorizer.answer_challenge(endpoint, SCOPE, Challenge("bearer", f"{registry.url}/token"))
        now += lasts - 0.5
        assert authorizer.find_header(endpoint, SCOPE) == {"Authorization": "Bearer token-1"}
        now += 1
        assert authorizer.find_header(endpoint, SCOPE) == {}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], None),
        (["Negotiate abc=="], None),
        (["Basic"], Challenge("basic")),
        (['BASIC Realm="r"'], Challenge("basic", "r")),
        (['Bearer realm="https://r/t",service=s'], Challenge("bearer", "https://r/t", "s")),
        (['Bearer realm = "a \\"b\\", c" , service="x,y"'], Challenge("bearer", 'a "b", c', "x,y")),
        (['Basic realm="b"', 'Bearer realm="t"'], Challenge("bearer", "t")),
        (['Basic realm="b", Bearer realm="t",service="s", Negotiate'], Challenge("bearer", "t", "s")),
        (['Bearer realm="t", Basic realm="b"'], Challenge("bearer", "t")),
        (['Digest realm="Bearer realm=evil"'], None),
        (['realm="x"'], None),
        (['Bearer realm="unended'], Challenge("bearer")),
    ],
)
def test_bearer_challenge_takes_precedence_over_basic(headers, expected):
    assert parse_challenges(headers) == expected
