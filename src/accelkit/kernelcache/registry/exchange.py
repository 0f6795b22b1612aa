"""Requests to a registry with everything around them: login, redirects, timeouts, retries.

A redirect is followed by hand, because what must not happen on the way matters here: credentials stay with the host
they are for, and nothing falls back from HTTPS to HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import aiohttp
from yarl import URL

from accelkit import __version__
from accelkit.errors import RegistryError
from accelkit.kernelcache.registry.authorization import Authorizer, parse_challenges
from accelkit.kernelcache.registry.destinations import find_proxy, have_same_origin, read_url, require_safe
from accelkit.kernelcache.registry.responses import RegistryResponse, read_limited, read_next_page, read_refusal
from accelkit.kernelcache.registry.settings import RegistryEndpoint, RegistrySettings

T = TypeVar("T")

# The slowest transfer that is waited for, in bytes per second.
SLOWEST = 64 << 10
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_BACK_OFF_SECONDS = 30.0
_FIRST_BACK_OFF_SECONDS = 0.5
_NEXT_WITH_TLS = "check its name and the network; a registry without TLS must be allowed by name"
_NEXT_WITHOUT_TLS = "check its name and the network"
_UNREACHED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
# Large reads keep the event loop out of the way of a streaming layer.
_READ_BUFFER_BYTES = 1 << 19


@dataclass(frozen=True)
class _Request:
    method: str
    url: str
    scope: str
    accepted: frozenset[int]
    headers: Mapping[str, str]
    body: Callable[[], Any] | None
    seconds: float


class Exchange:
    """Sends requests; opened and closed with `async with`.

    Args:
        settings: names, logins and patience.
        sleep: waits between attempts; a test puts its own here.
    """

    def __init__(self, settings: RegistrySettings, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._settings = settings
        self.sleep = sleep
        self._session: aiohttp.ClientSession | None = None
        self._authorizer: Authorizer | None = None

    async def __aenter__(self) -> Self:
        silence = self._settings.timeout_seconds
        connecting = min(silence, self._settings.connect_seconds)
        timeout = aiohttp.ClientTimeout(
            # Of both, the first is for looking up the name and for TLS as well.
            total=None,
            connect=2 * connecting,
            sock_connect=connecting,
            sock_read=silence,
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._settings.build_tls_context()),
            timeout=timeout,
            # The bytes that a digest is of are those on the wire, so nothing is unpacked on the way.
            auto_decompress=False,
            headers={"User-Agent": f"accelkit/{__version__}", "Accept-Encoding": "identity"},
            read_bufsize=_READ_BUFFER_BYTES,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._authorizer = Authorizer(self._session, self._settings)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    @contextlib.asynccontextmanager
    async def send(
        self,
        endpoint: RegistryEndpoint,
        method: str,
        url: str,
        *,
        actions: str = "pull",
        accepted: frozenset[int] = frozenset({200}),
        headers: Mapping[str, str] | None = None,
        body: Callable[[], Any] | None = None,
        body_bytes: int = 0,
        attempts: int | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request until it is answered for good, and give the response, whose body is still to be read.

        Args:
            endpoint: whose log-in is used; `url` need not lie there.
            method: HTTP's verb.
            url: absolute.
            actions: what the token must allow: `pull` or `pull,push`.
            accepted: the statuses that are an answer.
            headers: more headers.
            body: makes the request's body, anew for every attempt.
            body_bytes: how much that is, for how long it is waited for.
            attempts: how often it is tried; as often as the endpoint deserves where nothing is said.

        Raises:
            RegistryError: refused, answered otherwise, or not reached in all attempts.
        """
        scope = f"repository:{endpoint.repository}:{actions}"
        seconds = self._settings.timeout_seconds + body_bytes / SLOWEST
        request = _Request(method, url, scope, accepted, headers or {}, body, seconds)
        often = replace(endpoint, attempts=attempts) if attempts else endpoint
        async with await self.retry(often, lambda: self._once(endpoint, request)) as response:
            yield response

    async def read(
        self,
        endpoint: RegistryEndpoint,
        url: str,
        *,
        limit: int,
        what: str,
        actions: str = "pull",
        accepted: frozenset[int] = frozenset({200}),
        headers: Mapping[str, str] | None = None,
    ) -> RegistryResponse:
        """Get something small whole; what breaks off is asked for again.

        Args:
            endpoint: as in `send`, like all that is not named here.
            url: absolute.
            limit: the most bytes that are read.
            what: its name, for errors.
            actions: what the token must allow.
            accepted: the statuses that are an answer.
            headers: more headers.

        Raises:
            RegistryError: as `send`; or it is longer than `limit`.
        """

        async def once() -> RegistryResponse:
            async with self.send(
                endpoint, "GET", url, actions=actions, accepted=accepted, headers=headers, attempts=1
            ) as response:
                content = await read_limited(response, limit, what)
                return RegistryResponse(response.status, response.headers, content, read_next_page(response))

        return await self.retry(endpoint, once)

    async def retry(self, endpoint: RegistryEndpoint, once: Callable[[], Awaitable[T]]) -> T:
        """Do something until it succeeds or fails for good, as often as an endpoint deserves.

        Raises:
            RegistryError: the last one.
        """
        tried = 0
        while True:
            tried += 1
            try:
                return await once()
            except RegistryError as exc:
                most = min(endpoint.attempts, endpoint.connects) if exc.unreached else endpoint.attempts
                if not exc.retryable or tried >= most:
                    raise
                wait = max(_compute_back_off(tried), exc.retry_after_seconds)
            await self.sleep(min(wait, _MAX_BACK_OFF_SECONDS))

    async def _once(self, endpoint: RegistryEndpoint, request: _Request) -> aiohttp.ClientResponse:
        try:
            response = await self._send_with_login(endpoint, request)
        except aiohttp.ClientConnectorCertificateError as exc:
            raise RegistryError(
                f"{endpoint.registry} shows a certificate that is not trusted: {exc.certificate_error}",
                next_step="name the file with its authority, or ask whether somebody stands in between",
            ) from exc
        except (aiohttp.ClientError, OSError, UnicodeError) as exc:
            raise RegistryError(
                f"{endpoint.registry} cannot be reached for {endpoint.repository}: {_describe(exc)}",
                retryable=True,
                unreached=isinstance(exc, _UNREACHED),
                next_step=_NEXT_WITH_TLS if URL(endpoint.base).scheme == "https" else _NEXT_WITHOUT_TLS,
            ) from exc
        if response.status in request.accepted:
            return response
        async with response:
            raise await read_refusal(response, endpoint, request.method)

    async def _send_with_login(self, endpoint: RegistryEndpoint, request: _Request) -> aiohttp.ClientResponse:
        """One attempt, of two requests where the registry wants to know who we are."""
        assert self._authorizer is not None, "an exchange is opened before it is used"  # noqa: S101 - a slip of ours
        response = await self._follow(endpoint, request, self._authorizer.find_header(endpoint, request.scope))
        if response.status != 401:  # noqa: PLR2004 - HTTP's word for "who are you"
            return response
        challenge = parse_challenges(response.headers.getall("WWW-Authenticate", []))
        if challenge is None or not have_same_origin(response.url, URL(endpoint.base)):
            return response
        response.release()
        await self._authorizer.answer_challenge(endpoint, request.scope, challenge)
        return await self._follow(endpoint, request, self._authorizer.find_header(endpoint, request.scope))

    async def _follow(
        self, endpoint: RegistryEndpoint, request: _Request, authorization: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        assert self._session is not None, "an exchange is opened before it is used"  # noqa: S101 - a slip of ours
        url = read_url(request.url, base=endpoint.base, said_by=endpoint.registry)
        for _ in range(_MAX_REDIRECTS + 1):
            require_safe(url, base=endpoint.base, plain_http=self._settings.plain_http, said_by=endpoint.registry)
            ours = authorization if have_same_origin(url, URL(endpoint.base)) else {}
            async with asyncio.timeout(request.seconds):
                response = await self._session.request(
                    request.method,
                    url,
                    headers={**request.headers, **ours},
                    data=request.body() if request.body is not None else None,
                    allow_redirects=False,
                    proxy=find_proxy(url),
                )
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or not location:
                return response
            response.release()
            url = read_url(location, base=str(response.url), said_by=endpoint.registry)
        raise RegistryError(f"{endpoint.registry} redirects more than {_MAX_REDIRECTS} times for {endpoint.repository}")


def _describe(exc: Exception) -> str:
    # The connector's own text claims TLS where there is none, and repeats the registry's name.
    cause = exc.os_error if isinstance(exc, aiohttp.ClientConnectorError) else exc
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _compute_back_off(attempt: int) -> float:
    # Jitter keeps a fleet of nodes from asking in step.
    return _FIRST_BACK_OFF_SECONDS * float(2 ** (attempt - 1)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
