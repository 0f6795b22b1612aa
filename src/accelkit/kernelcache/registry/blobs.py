"""A blob on its way in: resumed where it breaks off, hashed while it streams, never longer than announced."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator

import aiohttp

from accelkit.errors import RegistryError
from accelkit.kernelcache.oci import Descriptor
from accelkit.kernelcache.registry.exchange import Exchange
from accelkit.kernelcache.registry.settings import Endpoint

# How often a transfer may break off without a byte in between, and in all.
_BREAKS_IN_A_ROW = 4
_BREAKS_AT_MOST = 32
# The slowest transfer that is waited for, in bytes per second, on top of a fixed time in seconds.
_SLOWEST = 64 << 10
_GRACE_SECONDS = 120
# Below this, handing a chunk to a thread costs more than hashing it.
_HASH_HERE_BYTES = 64 << 10
_PARTIAL = 206
_CONTENT_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


async def stream_blob(exchange: Exchange, endpoint: Endpoint, blob: Descriptor) -> AsyncIterator[bytes]:
    """Yield a blob's bytes as they come. They are proven only when the iteration has ended without an error.

    Args:
        exchange: an open one.
        endpoint: where it is read.
        blob: digest and size, from a manifest.

    Raises:
        RegistryError: it is not there, is of another size, has another digest, or breaks off too often.
    """
    arrival = _Arrival(blob, f"blob {blob.digest[:19]}… of {endpoint.repository}")
    while not arrival.complete:
        reason = "it ended early"
        try:
            async for chunk in _from(exchange, endpoint, blob, arrival.offset):
                await arrival.take(chunk)
                yield chunk
        except (aiohttp.ClientError, TimeoutError, ConnectionError) as exc:
            reason = str(exc) or type(exc).__name__
        if not arrival.complete:
            await asyncio.sleep(arrival.pause(reason))
    await arrival.prove()


class _Arrival:
    """How far a blob has come, its hash so far, and how often it broke off."""

    def __init__(self, blob: Descriptor, what: str) -> None:
        self.offset = 0
        self._blob = blob
        self._what = what
        self._hash = hashlib.sha256()
        self._hashing: asyncio.Future[None] | None = None
        self._breaks = 0
        self._breaks_in_a_row = 0
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + _GRACE_SECONDS + blob.size / _SLOWEST

    @property
    def complete(self) -> bool:
        return self.offset == self._blob.size

    async def take(self, chunk: bytes) -> None:
        self._breaks_in_a_row = 0
        self.offset += len(chunk)
        if self.offset > self._blob.size:
            raise RegistryError(f"{self._what} is longer than the {self._blob.size} bytes of its manifest")
        if self._loop.time() > self._deadline:
            raise RegistryError(
                f"{self._what} comes too slowly: {self.offset} of {self._blob.size} bytes", retryable=True
            )
        await self._hashed()
        if len(chunk) < _HASH_HERE_BYTES:
            self._hash.update(chunk)
        else:
            # In a thread, while the next chunk comes.
            self._hashing = self._loop.run_in_executor(None, self._hash.update, chunk)

    def pause(self, reason: str) -> float:
        """Seconds to wait before the next attempt."""
        self._breaks += 1
        self._breaks_in_a_row += 1
        if self._breaks_in_a_row > _BREAKS_IN_A_ROW or self._breaks > _BREAKS_AT_MOST:
            raise RegistryError(f"{self._what} breaks off again and again: {reason}", retryable=True)
        return float(min(0.1 * 2**self._breaks_in_a_row, 5))

    async def prove(self) -> None:
        await self._hashed()
        digest = f"sha256:{self._hash.hexdigest()}"
        if digest != self._blob.digest:
            raise RegistryError(f"{self._what} has the digest {digest}: it was changed or damaged on the way")

    async def _hashed(self) -> None:
        if self._hashing is not None:
            await self._hashing
            self._hashing = None


async def _from(exchange: Exchange, endpoint: Endpoint, blob: Descriptor, offset: int) -> AsyncIterator[bytes]:
    """Yield what follows `offset`, whether or not the registry can start in the middle."""
    headers = {"Range": f"bytes={offset}-"} if offset else {}
    url = endpoint.url(f"blobs/{blob.digest}")
    async with exchange.send(endpoint, "GET", url, headers=headers, accepted=frozenset({200, _PARTIAL})) as response:
        skip = offset
        if response.status == _PARTIAL:
            found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if found is None or int(found[1]) != offset:
                raise RegistryError(f"{endpoint.registry} answers another range of a blob than was asked for")
            skip = 0
        async for chunk in response.content.iter_any():
            if skip >= len(chunk):
                skip -= len(chunk)
                continue
            yield chunk[skip:] if skip else chunk
            skip = 0
