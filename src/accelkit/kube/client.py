"""HTTP client for the API server, which sends and returns bytes, and raises typed errors.

Callers decode the responses with msgspec; this module does not depend on object kinds. Every request has a timeout. The
client does not repeat POST and PATCH requests, because only the caller can decide whether they may be repeated. If an
idle connection was closed, aiohttp repeats other requests once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Literal, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from yarl import URL

from accelkit.errors import ApiError, PageTooLargeError
from accelkit.kube.connection import Connection

PatchKind = Literal["merge", "strategic", "json", "apply"]

_PATCH_TYPES: Mapping[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    # The body is sent as JSON, which is valid YAML.
    "apply": "application/apply-patch+yaml",
}
# A watch event is one line. A Pod can have a size of 1.5 MiB, and a list page can be much larger.
_READ_BUFFER_BYTES = 1 << 20
_PAGE_TIMEOUTS = 6
# The API server does not redirect requests, so every status other than 2xx is an error.
_FIRST_REFUSAL = 300


class _Cause(msgspec.Struct):
    reason: str = ""
    message: str = ""


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    message: str = ""
    reason: str = ""
    details: _Details | None = None
    # accelkit's services return this field, without a reason, through the API server's proxy.
    error: str = ""


_status = msgspec.json.Decoder(_Status)


class ApiClient:
    """A session with one API server. Use it as an asynchronous context manager.

    Args:
        connection: the connection data: the API server and the credentials.
        timeout_seconds: the timeout for each request, including the time to connect.
        connections: the maximum number of concurrent requests.
    """

    def __init__(self, connection: Connection, *, timeout_seconds: float = 10.0, connections: int = 100) -> None:
        self.server, self.context = connection.server, connection.context
        self._connection = connection
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        # A page may take longer than other requests while data arrives. The time without data and the total time are
        # limited.
        self._page_timeout = aiohttp.ClientTimeout(
            total=_PAGE_TIMEOUTS * timeout_seconds, connect=timeout_seconds, sock_read=timeout_seconds
        )
        self._limit = connections
        # These options are specified for each request, because a session has no such settings. The API server's proxy
        # returns responses from pods and services unchanged. If such a response contained a redirect, it would be
        # followed with the client's credentials.
        self._route: dict[str, Any] = {"allow_redirects": False}
        if connection.server_name:
            self._route["server_hostname"] = connection.server_name
        if connection.proxy:
            self._route["proxy_headers"] = connection.proxy_headers
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        at = self._connection
        connector = aiohttp.TCPConnector(ssl=at.tls or False, limit=self._limit)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=self._timeout,
            read_bufsize=_READ_BUFFER_BYTES,
            headers=[("Accept", "application/json"), *at.headers],
            proxy=at.proxy,
            # The API server does not set cookies, and a cookie lookup would delay each request.
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def get(
        self, path: str, *, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """Send a GET request for `path`; raise ApiError unless the response is 2xx."""
        return await self._request("GET", path, query=query, headers=headers)

    async def get_page(
        self, path: str, *, query: Mapping[str, str], max_bytes: int, accept: str = ""
    ) -> bytes | bytearray:
        """Read one page of a list. As long as data arrives, the request may take longer than other requests.

        Args:
            path: the collection.
            query: the selectors, the limit and the continue token.
            max_bytes: the maximum accepted size of the page.
            accept: the media type of the response; empty for the default media type of the collection.

        Raises:
            PageTooLargeError: the page is larger than `max_bytes`, or did not arrive within the time limit.
            ApiError: the response is not 2xx, or there is no response.
        """
        answer = bytearray()
        try:
            # If compression were enabled, a page of repeated text could be a thousand times as large in memory as on
            # the network.
            headers = {"Accept-Encoding": "identity", **self._headers(), **({"Accept": accept} if accept else {})}
            url = self._url(path, query)
            async with self._open().get(url, headers=headers, timeout=self._page_timeout, **self._route) as response:
                async for chunk in response.content.iter_any():
                    answer += chunk
                    if len(answer) > max_bytes:
                        raise PageTooLargeError(f"cannot read a page of {path}: it has more than {max_bytes} bytes")
        except aiohttp.ConnectionTimeoutError as exc:
            raise self._no_answer("GET", path, exc) from exc
        except TimeoutError as exc:
            raise PageTooLargeError(f"cannot read a page of {path}: it did not arrive before the timeout") from exc
        except (aiohttp.ClientError, OSError) as exc:
            raise self._no_answer("GET", path, exc) from exc
        if response.status >= _FIRST_REFUSAL:
            raise _read_refusal(response.status, bytes(answer))
        return answer

    async def post(
        self,
        path: str,
        body: object,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Send a POST request with `body` as JSON; raise ApiError unless the response is 2xx."""
        return await self._request("POST", path, body, query=query, headers=headers)

    async def put(self, path: str, body: object, *, query: Mapping[str, str] | None = None) -> bytes:
        """Send a PUT request with `body` as JSON; raise ApiError unless the response is 2xx."""
        return await self._request("PUT", path, body, query=query)

    async def patch(
        self, path: str, body: object, *, kind: PatchKind = "merge", query: Mapping[str, str] | None = None
    ) -> bytes:
        """Send a PATCH request with a patch of the specified kind; raise ApiError unless the response is 2xx.

        For the kind `apply`, the patch is the desired object. The API server requires `fieldManager` in the query, and
        records this manager as the owner of the fields.
        """
        return await self._request("PATCH", path, body, query=query, content_type=_PATCH_TYPES[kind])

    async def delete(self, path: str, body: object | None = None) -> bytes:
        """Send a DELETE request with DeleteOptions in `body`; raise ApiError unless the response is 2xx."""
        return await self._request("DELETE", path, body)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], silence_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a watch and yield its lines; raise ApiError if it is rejected or silent for `silence_seconds`."""
        timeout = aiohttp.ClientTimeout(total=None, connect=10, sock_read=silence_seconds)
        try:
            request = self._open().get(self._url(path, query), headers=self._headers(), timeout=timeout, **self._route)
            async with request as response:
                if response.status != HTTPStatus.OK:
                    raise _read_refusal(response.status, await response.read())
                yield _split_lines(response.content)
        except (aiohttp.ClientError, TimeoutError, OSError) as exc:
            raise ApiError(f"the watch of {path} failed: {str(exc) or type(exc).__name__}") from exc

    async def _request(
        self,
        method: str,
        path: str,
        body: object | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        data = None if body is None else msgspec.json.encode(body)
        sent = {**(headers or {}), **({} if data is None else {"Content-Type": content_type})}
        try:
            sent |= self._headers()
            request = self._open().request(method, self._url(path, query), data=data, headers=sent, **self._route)
            async with request as response:
                answer = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError, asyncio.IncompleteReadError) as exc:
            raise self._no_answer(method, path, exc) from exc
        return _accept(response.status, answer)

    def _no_answer(self, method: str, path: str, error: Exception) -> ApiError:
        return ApiError(f"{method} {self.server}{path} received no response: {str(error) or type(error).__name__}")

    def _url(self, path: str, query: Mapping[str, str] | None) -> URL:
        # The URL is encoded only once. Parsing and quoting it again would take a tenth of the time of a request.
        return URL(f"{self.server}{path}?{urlencode(query)}" if query else self.server + path, encoded=True)

    def _headers(self) -> dict[str, str]:
        authorization = self._connection.read_authorization()
        return {"Authorization": authorization} if authorization else {}

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("ApiClient must be used inside its `async with` block")
        return self._session


def _accept(status: int, answer: bytes) -> bytes:
    """Return the body of a successful response.

    Raises:
        ApiError: the status is not 2xx.
    """
    if status >= _FIRST_REFUSAL:
        raise _read_refusal(status, answer)
    return answer


def _read_refusal(status: int, answer: bytes) -> ApiError:
    try:
        decoded = _status.decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        decoded = _Status(message=answer[:300].decode(errors="replace"))
    message = decoded.message or decoded.error or f"HTTP {status}"
    # The message already contains all causes except this cause, which contains the name of the PodDisruptionBudget.
    causes = decoded.details.causes or () if decoded.details else ()
    budgets = [cause.message for cause in causes if cause.reason == "DisruptionBudget" and cause.message]
    return ApiError(" ".join([message, *budgets]), status=status, reason=decoded.reason)


async def _split_lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    # StreamReader.readline rejects lines that are longer than its buffer, and events can be longer.
    pending, searched = bytearray(), 0
    async for chunk in content.iter_any():
        pending += chunk
        # Search only the new data. Otherwise, all chunks of a long event would be searched again for each new chunk.
        while (end := pending.find(b"\n", searched)) >= 0:
            yield bytes(pending[:end])
            del pending[: end + 1]
            searched = 0
        searched = len(pending)
