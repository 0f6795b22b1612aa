"""One request to a registry, with everything around it: log-in, redirects, patience, retries.

A redirect is followed by hand, because what must not happen on the way matters here: credentials stay with the host
they are for, and nothing falls back from HTTPS to HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

import aiohttp

from accelkit import __version__
from accelkit.errors import RegistryError
from accelkit.kernelcache.registry.authorization import Authorizer, parse_challenges
from accelkit.kernelcache.registry.settings import Endpoint, RegistrySettings

_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_BACK_OFF_SECONDS = 30.0
_FIRST_BACK_OFF_SECONDS = 0.5
_MAX_ERROR_BYTES = 64 << 10
# Large reads keep the event loop out of the way of a streaming layer.
_READ_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True)
class _Request:
    method: str
    url: str
    headers: Mapping[str, str]
    body: Callable[[], Any] | None


class Exchange:
    """Sends requests; opened and closed with `async with`.

    Args:
        settings: names, logins and patience.
        sleep: waits between attempts; a test puts its own here.
    """

    def __init__(self, settings: RegistrySettings, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._settings = settings
        self._sleep = sleep
        self._session: aiohttp.ClientSession | None = None
        self._authorizer: Authorizer | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=self._settings.timeout_seconds, sock_read=self._settings.timeout_seconds
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._settings.tls()),
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
        endpoint: Endpoint,
        method: str,
        url: str,
        *,
        actions: str = "pull",
        accepted: frozenset[int] = frozenset({200}),
        headers: Mapping[str, str] | None = None,
        body: Callable[[], Any] | None = None,
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

        Raises:
            RegistryError: refused, answered otherwise, or not reached in all attempts.
        """
        request = _Request(method, url, headers or {}, body)
        scope = f"repository:{endpoint.repository}:{actions}"
        attempt = 0
        while True:
            attempt += 1
            try:
                response = await self._once(endpoint, scope, request)
            except (aiohttp.ClientError, TimeoutError) as exc:
                error = RegistryError(
                    f"{endpoint.registry} cannot be reached for {endpoint.repository}: {exc or type(exc).__name__}",
                    retryable=True,
                    next_step="check its name and the network; plain HTTP must be allowed by name",
                )
                error.__cause__ = exc
                wait = _back_off(attempt)
            else:
                async with response:
                    if response.status in accepted:
                        yield response
                        return
                    error = await _refusal(response, endpoint, method)
                    wait = max(_back_off(attempt), _retry_after(response))
            if not error.retryable or attempt >= self._settings.attempts:
                raise error
            await self._sleep(min(wait, _MAX_BACK_OFF_SECONDS))

    async def _once(self, endpoint: Endpoint, scope: str, request: _Request) -> aiohttp.ClientResponse:
        """One attempt, of two requests where the registry wants to know who we are."""
        assert self._authorizer is not None, "an exchange is opened before it is used"  # noqa: S101 - a slip of ours
        response = await self._follow(endpoint, request, self._authorizer.header(endpoint, scope))
        if response.status != 401:  # noqa: PLR2004 - HTTP's word for "who are you"
            return response
        challenge = parse_challenges(response.headers.getall("WWW-Authenticate", []))
        if challenge is None or not _same_origin(str(response.url), endpoint.base):
            return response
        response.release()
        await self._authorizer.answer(endpoint, scope, challenge)
        return await self._follow(endpoint, request, self._authorizer.header(endpoint, scope))

    async def _follow(
        self, endpoint: Endpoint, request: _Request, authorization: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        assert self._session is not None, "an exchange is opened before it is used"  # noqa: S101 - a slip of ours
        url = request.url
        for _ in range(_MAX_REDIRECTS + 1):
            self._check_scheme(url, endpoint)
            ours = authorization if _same_origin(url, endpoint.base) else {}
            response = await self._session.request(
                request.method,
                url,
                headers={**request.headers, **ours},
                data=request.body() if request.body is not None else None,
                allow_redirects=False,
                proxy=_proxy(url),
            )
            location = response.headers.get("Location")
            if response.status not in _REDIRECTS or not location:
                return response
            response.release()
            url = urljoin(str(response.url), location)
        raise RegistryError(f"{endpoint.registry} redirects more than {_MAX_REDIRECTS} times for {endpoint.repository}")

    def _check_scheme(self, url: str, endpoint: Endpoint) -> None:
        parts = urlsplit(url)
        if parts.scheme == "https" or (
            parts.scheme == "http" and (parts.netloc in self._settings.plain_http or _same_origin(url, endpoint.base))
        ):
            return
        raise RegistryError(
            f"{endpoint.registry} sends us to {parts.scheme}://{parts.netloc}, which is not HTTPS",
            next_step="allow that host for plain HTTP by name, if it is to be trusted",
        )


async def read_limited(response: aiohttp.ClientResponse, limit: int, what: str) -> bytes:
    """Read a body whole.

    Raises:
        RegistryError: it is longer than `limit` bytes, or breaks off.
    """
    parts, size = [], 0
    try:
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > limit:
                raise RegistryError(f"{what} is longer than {limit} bytes")
            parts.append(chunk)
    except (aiohttp.ClientError, TimeoutError) as exc:
        raise RegistryError(f"{what} broke off: {exc or type(exc).__name__}", retryable=True) from exc
    return b"".join(parts)


def _same_origin(url: str, base: str) -> bool:
    return urlsplit(url)[:2] == urlsplit(base)[:2]


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for a URL (HTTPS_PROXY, NO_PROXY…)."""
    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _back_off(attempt: int) -> float:
    # Jitter keeps a fleet of nodes from asking in step.
    return _FIRST_BACK_OFF_SECONDS * float(2 ** (attempt - 1)) * random.uniform(0.5, 1.0)  # noqa: S311 - no secret


def _retry_after(response: aiohttp.ClientResponse) -> float:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else 0.0


async def _refusal(response: aiohttp.ClientResponse, endpoint: Endpoint, method: str) -> RegistryError:
    status = response.status
    detail = ""
    with contextlib.suppress(RegistryError):
        detail = (await read_limited(response, _MAX_ERROR_BYTES, "an error")).decode(errors="replace")
        detail = " ".join(detail.split())[:200]
    retryable = status == 429 or status >= 500  # noqa: PLR2004 - HTTP's classes
    next_step = {
        401: "log in to it, or give a pull secret",
        403: "this login may not do that there; ask for the right",
        404: "check the name; some registries also say this to those without the right to see it",
    }.get(status, "")
    path = response.url.path.split(f"/v2/{endpoint.repository}/", 1)[-1]
    said = f" ({detail})" if detail else ""
    return RegistryError(
        f"{endpoint.registry} answers HTTP {status} to {method} {endpoint.repository} {path}{said}",
        status=status,
        retryable=retryable,
        next_step=next_step,
    )
