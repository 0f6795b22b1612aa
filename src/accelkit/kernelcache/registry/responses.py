"""Registry responses: complete small bodies, the next page of a list, and errors with the registry's message."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import time
from dataclasses import dataclass

import aiohttp
from multidict import CIMultiDictProxy

from accelkit.errors import RegistryError
from accelkit.kernelcache.registry.settings import RegistryEndpoint

_MAX_ERROR_BYTES = 64 << 10
_MAX_DETAIL_CHARACTERS = 200
# The maximum time to receive a small body, in seconds, because a registry could send it arbitrarily slowly.
_BODY_SECONDS = 120.0


@dataclass(frozen=True)
class RegistryResponse:
    """A complete small response. `following` is the unchanged URL of the next page; None on the last page."""

    status: int
    headers: CIMultiDictProxy[str]
    content: bytes
    following: str | None = None


async def read_limited(response: aiohttp.ClientResponse, limit: int, what: str) -> bytes:
    """Return the complete body of a response.

    Raises:
        RegistryError: the body is longer than `limit` bytes, takes too long, or is interrupted.
    """
    parts, size = [], 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for chunk in response.content.iter_any():
                size += len(chunk)
                if size > limit:
                    raise RegistryError(f"{what} is longer than {limit} bytes")
                parts.append(chunk)
    except (aiohttp.ClientError, OSError) as exc:
        raise RegistryError(f"{what} was interrupted: {exc or type(exc).__name__}", retryable=True) from exc
    return b"".join(parts)


def read_next_page(response: aiohttp.ClientResponse) -> str | None:
    """Return the URL of the next page from the `Link` header; None on the last page.

    Raises:
        RegistryError: the header is invalid, so the list is incomplete.
    """
    try:
        link = response.links.get("next")
    except ValueError as exc:
        raise RegistryError(f"{response.url.raw_host} returned an invalid link to the next page: {exc}") from exc
    return str(link["url"]) if link else None


async def read_refusal(response: aiohttp.ClientResponse, endpoint: RegistryEndpoint, method: str) -> RegistryError:
    """Return an error for a response whose status is not accepted."""
    status = response.status
    detail = ""
    with contextlib.suppress(RegistryError):
        detail = (await read_limited(response, _MAX_ERROR_BYTES, "an error")).decode(errors="replace")
        # The message is printed on terminals, which interpret control characters.
        detail = "".join(character for character in " ".join(detail.split()) if character.isprintable())
    next_step = {
        401: "log in to the registry, or specify a pull secret",
        403: "this login lacks the permission; request it, or use another login",
        404: "check the name; some registries also return 404 to users without permission",
    }.get(status, "")
    path = response.url.path.split(f"/v2/{endpoint.repository}/", 1)[-1]
    message = f" ({detail[:_MAX_DETAIL_CHARACTERS]})" if detail else ""
    return RegistryError(
        f"{endpoint.registry} returned HTTP {status} for {method} {endpoint.repository} {path}{message}",
        status=status,
        retryable=is_passing(status),
        retry_after_seconds=_read_retry_after(response),
        next_step=next_step,
    )


def is_passing(status: int) -> bool:
    """Return whether an HTTP status may indicate a temporary problem. Status 501 is permanent."""
    return status in {408, 429} or (status >= 500 and status != 501)  # noqa: PLR2004 - HTTP's classes


def _read_retry_after(response: aiohttp.ClientResponse) -> float:
    value = response.headers.get("Retry-After", "")
    if value.isdecimal():
        return float(value)
    with contextlib.suppress(ValueError):
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    return 0.0
