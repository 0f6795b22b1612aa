"""Registry authorization: parsing of challenges, and responses with tokens or passwords."""

from __future__ import annotations

import asyncio
import base64
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from accelkit.errors import RegistryError
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.registry.credentials import Login
from accelkit.kernelcache.registry.destinations import find_proxy, read_url, require_safe
from accelkit.kernelcache.registry.responses import is_passing, read_limited
from accelkit.kernelcache.registry.settings import RegistryEndpoint, RegistrySettings

_ResponseContext: TypeAlias = AbstractAsyncContextManager[aiohttp.ClientResponse]

_MAX_TOKEN_BYTES = 256 << 10
# The default lifetime of a token according to the specification, and the time before its expiry after which it is not
# used, both in seconds.
_DEFAULT_SECONDS = 60.0
_MARGIN_SECONDS = 10.0
_LONGEST_SECONDS = 3600.0
# A parameter or the name of a scheme, because one header may contain several challenges.
_PIECE = re.compile(r'([\w-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))|([\w-]+)', re.ASCII)


@dataclass(frozen=True)
class Challenge:
    """The challenge of a registry. `scheme` is `bearer` or `basic`."""

    scheme: str
    realm: str = ""
    service: str = ""


class _Token(msgspec.Struct, frozen=True):
    token: str | None = None
    access_token: str | None = None
    expires_in: float | None = None


_token = msgspec.json.Decoder(_Token)


def parse_challenges(headers: list[str]) -> Challenge | None:
    """Return a supported challenge from `WWW-Authenticate` headers, preferably `bearer`; None if there is none."""
    found: dict[str, dict[str, str]] = {}
    for header in headers:
        values: dict[str, str] = {}
        for name, quoted, bare, scheme in _PIECE.findall(header):
            if scheme:
                values = found.setdefault(scheme.lower(), {})
            else:
                values[name.lower()] = re.sub(r"\\(.)", r"\1", quoted) or bare
    for scheme in ("bearer", "basic"):
        if scheme in found:
            return Challenge(scheme, found[scheme].get("realm", ""), found[scheme].get("service", ""))
    return None


class Authorizer:
    """Authorizer that responds to registry challenges, and caches the authorization headers per endpoint and scope.

    Args:
        session: the session for token requests.
        settings: the settings that specify the logins and the registries that may be used without TLS.
        clock: a function that returns a monotonic time in seconds.
    """

    def __init__(
        self, session: aiohttp.ClientSession, settings: RegistrySettings, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._session = session
        self._settings = settings
        self._clock = clock
        self._headers: dict[tuple[str, str], tuple[str, float]] = {}

    def find_header(self, endpoint: RegistryEndpoint, scope: str) -> dict[str, str]:
        """Return the cached authorization header; empty if no header is cached or the header has expired."""
        value, until = self._headers.get((endpoint.base, scope), ("", 0.0))
        return {"Authorization": value} if value and self._clock() < until else {}

    async def answer_challenge(self, endpoint: RegistryEndpoint, scope: str, challenge: Challenge) -> None:
        """Respond to a challenge, so that `find_header` returns the new header.

        Raises:
            RegistryError: a required login is missing, or the token server rejected the request.
            ConfigurationError: a credential helper failed.
        """
        login = await self._settings.credentials.find_login(Reference(endpoint.registry, endpoint.repository))
        if challenge.scheme == "basic":
            if login is None or not login.username:
                raise RegistryError(
                    f"{endpoint.registry} requires a user name and a password for {endpoint.repository}",
                    status=401,
                    next_step="run docker login, or specify a pull secret",
                )
            self._headers[endpoint.base, scope] = (_encode_basic(login), float("inf"))
            return
        token, seconds = await self._request_token(endpoint, scope, challenge, login)
        self._headers[endpoint.base, scope] = (f"Bearer {token}", self._clock() + max(seconds - _MARGIN_SECONDS, 1.0))

    async def _request_token(
        self, endpoint: RegistryEndpoint, scope: str, challenge: Challenge, login: Login | None
    ) -> tuple[str, float]:
        realm = read_url(challenge.realm, base=endpoint.base, registry=endpoint.registry)
        require_safe(realm, base=endpoint.base, plain_http=self._settings.plain_http, registry=endpoint.registry)
        server = f"the token server {realm.raw_host}"
        try:
            async with (
                asyncio.timeout(self._settings.timeout_seconds),
                self._request(realm, {"service": challenge.service, "scope": scope}, login) as response,
            ):
                content = await read_limited(response, _MAX_TOKEN_BYTES, f"the response of {server}")
                status = response.status
        except (aiohttp.ClientError, OSError) as exc:
            raise RegistryError(f"cannot reach {server}: {exc or type(exc).__name__}", retryable=True) from exc
        if status != 200:  # noqa: PLR2004 - HTTP's status for success
            raise RegistryError(
                f"{server} refused a token for {endpoint.repository}: HTTP {status}",
                status=status,
                retryable=is_passing(status),
                next_step="check the login for this registry" if login else "log in, or specify a pull secret",
            )
        try:
            token = _token.decode(content)
        except (msgspec.DecodeError, RecursionError) as exc:
            raise RegistryError(f"the response of {server} is not a token") from exc
        value = token.token or token.access_token or ""
        if not value.isascii() or not value.isprintable() or not value.strip():
            raise RegistryError(f"the response of {server} contains no valid token")
        seconds = _DEFAULT_SECONDS if token.expires_in is None else token.expires_in
        return value, min(seconds, _LONGEST_SECONDS)

    def _request(self, realm: URL, fields: Mapping[str, str], login: Login | None) -> _ResponseContext:
        given = {name: value for name, value in fields.items() if value}
        if login is not None and login.identity_token:
            form = {**given, "grant_type": "refresh_token", "refresh_token": login.identity_token}
            return self._session.post(
                realm, data={**form, "client_id": "accelkit"}, allow_redirects=False, proxy=find_proxy(realm)
            )
        headers = {"Authorization": _encode_basic(login)} if login is not None else {}
        # The URL is built here, because the session would quote the query string of the realm a second time.
        url = URL(f"{realm}{'&' if realm.raw_query_string else '?'}{urlencode(given)}", encoded=True)
        return self._session.get(url, headers=headers, allow_redirects=False, proxy=find_proxy(url))


def _encode_basic(login: Login) -> str:
    return "Basic " + base64.b64encode(f"{login.username}:{login.password}".encode()).decode()
