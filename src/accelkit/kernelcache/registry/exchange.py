"""Registry requests with login, redirects, timeouts and retries.

This module follows redirects itself, because it must send credentials only to the host to which they belong, and must
not fall back from HTTPS to HTTP.
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
from accelkit.back_off import BackOff
from accelkit.errors import RegistryError
from accelkit.kernelcache.registry.authorization import Authorizer, parse_challenges
from accelkit.kernelcache.registry.destinations import find_proxy, have_same_origin, read_url, require_safe
from accelkit.kernelcache.registry.responses import RegistryResponse, read_limited, read_next_page, read_refusal
from accelkit.kernelcache.registry.settings import RegistryEndpoint, RegistrySettings

T = TypeVar("T")

# The minimum speed of a transfer, in bytes per second.
SLOWEST = 64 << 10
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_BACK_OFF_SECONDS = 30.0
_FIRST_BACK_OFF_SECONDS = 0.5
_NEXT_WITH_TLS = "check its name and the network; a registry without TLS must be allowed by name"
_NEXT_WITHOUT_TLS = "check its name and the network"
_UNREACHED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
# Large reads reduce the load on the event loop while a layer is transferred.
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
    """Client for single registry requests. Use it as a context manager with `async with`.

    Args:
        settings: the registry settings, with logins and timeouts.
        sleep: a function that waits between attempts; tests replace it.
    """

    def __init__(self, settings: RegistrySettings, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._settings = settings
        self.sleep = sleep
        self._session: aiohttp.ClientSession | None = None
        self._authorizer: Authorizer | None = None

    async def __aenter__(self) -> Self:
        read_seconds = self._settings.timeout_seconds
        connect_seconds = min(read_seconds, self._settings.connect_seconds)
        timeout = aiohttp.ClientTimeout(
            # `connect` also includes the name lookup and the TLS handshake; `sock_connect` does not.
            total=None,
            connect=2 * connect_seconds,
            sock_connect=connect_seconds,
            sock_read=read_seconds,
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._settings.build_tls_context()),
            timeout=timeout,
            # Digests are computed over the received bytes, so the session must not decompress them.
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
        """Send a request with retries, and yield the response with its unread body.

        Args:
            endpoint: the endpoint whose login is used; the host of `url` may be different.
            method: the HTTP method.
            url: the absolute URL.
            actions: the actions that the token must allow: `pull` or `pull,push`.
            accepted: the accepted HTTP statuses.
            headers: additional headers.
            body: a function that returns the request body; it is called for each attempt.
            body_bytes: the size of the body; the timeout increases with the size.
            attempts: the maximum number of attempts; None for the number that the endpoint specifies.

        Raises:
            RegistryError: the request was rejected, the response has a different status, or the registry was
                unreachable in all attempts.
        """
        scope = f"repository:{endpoint.repository}:{actions}"
        seconds = self._settings.timeout_seconds + body_bytes / SLOWEST
        request = _Request(method, url, scope, accepted, headers or {}, body, seconds)
        limits = replace(endpoint, attempts=attempts) if attempts else endpoint
        async with await self.retry(limits, lambda: self._send_once(endpoint, request)) as response:
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
        """Return a complete small response; retry an interrupted transfer.

        Args:
            endpoint: the endpoint whose login is used; the host of `url` may be different.
            url: the absolute URL.
            limit: the maximum size of the response, in bytes.
            what: the name of the object, for error messages.
            actions: the actions that the token must allow.
            accepted: the accepted HTTP statuses.
            headers: additional headers.

        Raises:
            RegistryError: the request failed (see `send`), or the response is longer than `limit`.
        """

        async def once() -> RegistryResponse:
            async with self.send(
                endpoint, "GET", url, actions=actions, accepted=accepted, headers=headers, attempts=1
            ) as response:
                content = await read_limited(response, limit, what)
                return RegistryResponse(response.status, response.headers, content, read_next_page(response))

        return await self.retry(endpoint, once)

    async def retry(self, endpoint: RegistryEndpoint, once: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until it succeeds, fails permanently, or reaches the endpoint's maximum number of attempts.

        Raises:
            RegistryError: the last attempt failed.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await once()
            except RegistryError as exc:
                limit = min(endpoint.attempts, endpoint.connects) if exc.unreached else endpoint.attempts
                if not exc.retryable or attempt >= limit:
                    raise
                # Jitter prevents many nodes from sending their requests at the same time.
                jitter = random.uniform(0.5, 1.0)  # noqa: S311 - no secret
                back_off = BackOff(_FIRST_BACK_OFF_SECONDS, _MAX_BACK_OFF_SECONDS).compute(attempt)
                wait = max(back_off * jitter, exc.retry_after_seconds)
            await self.sleep(min(wait, _MAX_BACK_OFF_SECONDS))

    async def _send_once(self, endpoint: RegistryEndpoint, request: _Request) -> aiohttp.ClientResponse:
        try:
            response = await self._send_with_login(endpoint, request)
        except aiohttp.ClientConnectorCertificateError as exc:
            raise RegistryError(
                f"{endpoint.registry} has a certificate that is not trusted: {exc.certificate_error}",
                next_step="specify its CA certificate file, or check whether a proxy intercepts TLS",
            ) from exc
        except (aiohttp.ClientError, OSError, UnicodeError) as exc:
            raise RegistryError(
                f"cannot reach {endpoint.registry} for {endpoint.repository}: {_describe(exc)}",
                retryable=True,
                unreached=isinstance(exc, _UNREACHED),
                next_step=_NEXT_WITH_TLS if URL(endpoint.base).scheme == "https" else _NEXT_WITHOUT_TLS,
            ) from exc
        if response.status in request.accepted:
            return response
        async with response:
            raise await read_refusal(response, endpoint, request.method)

    async def _send_with_login(self, endpoint: RegistryEndpoint, request: _Request) -> aiohttp.ClientResponse:
        """Make one attempt, which consists of two requests if the registry requires authorization."""
        assert self._authorizer is not None, "an exchange is opened before it is used"  # noqa: S101 - a bug
        response = await self._follow(endpoint, request, self._authorizer.find_header(endpoint, request.scope))
        if response.status != 401:  # noqa: PLR2004 - HTTP's status "Unauthorized"
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
        assert self._session is not None, "an exchange is opened before it is used"  # noqa: S101 - a bug
        url = read_url(request.url, base=endpoint.base, registry=endpoint.registry)
        for _ in range(_MAX_REDIRECTS + 1):
            require_safe(url, base=endpoint.base, plain_http=self._settings.plain_http, registry=endpoint.registry)
            allowed = authorization if have_same_origin(url, URL(endpoint.base)) else {}
            async with asyncio.timeout(request.seconds):
                response = await self._session.request(
                    request.method,
                    url,
                    headers={**request.headers, **allowed},
                    data=request.body() if request.body is not None else None,
                    allow_redirects=False,
                    proxy=find_proxy(url),
                )
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or not location:
                return response
            response.release()
            url = read_url(location, base=str(response.url), registry=endpoint.registry)
        raise RegistryError(
            f"{endpoint.registry} redirected more than {_MAX_REDIRECTS} times for {endpoint.repository}"
        )


def _describe(exc: Exception) -> str:
    # aiohttp's message mentions TLS even for plain HTTP, and repeats the name of the registry.
    cause = exc.os_error if isinstance(exc, aiohttp.ClientConnectorError) else exc
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
