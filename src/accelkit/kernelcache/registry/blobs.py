"""Downloads of blobs: resumed where they break off, hashed while they stream, never longer than announced."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncGenerator

import aiohttp

from accelkit.errors import RegistryError
from accelkit.kernelcache.oci.documents import Descriptor
from accelkit.kernelcache.registry.exchange import SLOWEST, Exchange
from accelkit.kernelcache.registry.settings import RegistryEndpoint

# How often a transfer may break off without a byte in between, and in all.
_BREAKS_IN_A_ROW = 4
_BREAKS_AT_MOST = 32
# What the slowest transfer may take on top of the time for its bytes, in seconds.
_GRACE_SECONDS = 120
# Below this, handing a chunk to a thread costs more than hashing it.
_HASH_HERE_BYTES = 64 << 10
_PARTIAL = 206
_BEYOND_THE_END = 416
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,19})-[0-9]{1,19}/(?:[0-9]{1,19}|\*)")


async def stream_blob(exchange: Exchange, endpoint: RegistryEndpoint, blob: Descriptor) -> AsyncGenerator[bytes]:
    """Yield a blob's bytes as they come. They are proven only when the iteration has ended without an error.

    Args:
        exchange: an open one.
        endpoint: where it is read.
        blob: digest and size, from a manifest.

    Raises:
        RegistryError: it is not there, is of another size, has another digest, or breaks off too often.
    """
    arrival = _Arrival(blob, f"blob {blob.digest[:19]}… of {endpoint.registry}/{endpoint.repository}")
    while not arrival.complete:
        reason = "it ended early"
        try:
            async with contextlib.aclosing(_stream_rest(exchange, endpoint, blob, arrival)) as chunks:
                async for chunk in chunks:
                    await arrival.take(chunk)
                    yield chunk
        except (aiohttp.ClientError, OSError) as exc:
            reason = str(exc) or type(exc).__name__
        if not arrival.complete:
            await exchange.sleep(arrival.plan_pause(reason))
    await arrival.prove()


class _Arrival:
    """How far a blob has come, its hash so far, and how often it broke off."""

    def __init__(self, blob: Descriptor, what: str) -> None:
        self.offset = 0
        self._blob = blob
        self.what = what
        self._hash = hashlib.sha256()
        self._hashing: asyncio.Future[None] | None = None
        self._breaks = 0
        self._breaks_in_a_row = 0
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + _GRACE_SECONDS + blob.size / SLOWEST

    @property
    def complete(self) -> bool:
        return self.offset == self._blob.size

    async def take(self, chunk: bytes) -> None:
        self._breaks_in_a_row = 0
        self.offset += len(chunk)
        if self.offset > self._blob.size:
            raise RegistryError(f"{self.what} is longer than the {self._blob.size} bytes of its manifest")
        await self._finish_hashing()
        if len(chunk) < _HASH_HERE_BYTES:
            self._hash.update(chunk)
        else:
            # In a thread, while the next chunk comes.
            self._hashing = self._loop.run_in_executor(None, self._hash.update, chunk)

    def require_time(self) -> None:
        if self._loop.time() > self._deadline:
            raise RegistryError(
                f"{self.what} comes too slowly: {self.offset} of {self._blob.size} bytes", retryable=True
            )

    def plan_pause(self, reason: str) -> float:
        """Seconds to wait before the next attempt."""
        self.require_time()
        self._breaks += 1
        self._breaks_in_a_row += 1
        if self._breaks_in_a_row > _BREAKS_IN_A_ROW or self._breaks > _BREAKS_AT_MOST:
            raise RegistryError(f"{self.what} breaks off again and again: {reason}", retryable=True)
        return float(min(0.1 * 2**self._breaks_in_a_row, 5))

    async def prove(self) -> None:
        await self._finish_hashing()
        digest = f"sha256:{self._hash.hexdigest()}"
        if digest != self._blob.digest:
            raise RegistryError(f"{self.what} has the digest {digest}: it was changed or damaged on the way")

    async def _finish_hashing(self) -> None:
        if self._hashing is not None:
            await self._hashing
            self._hashing = None


async def _stream_rest(
    exchange: Exchange, endpoint: RegistryEndpoint, blob: Descriptor, arrival: _Arrival
) -> AsyncGenerator[bytes]:
    """Yield what has not come yet, whether or not the registry can start in the middle."""
    skip = arrival.offset
    # With both ends: some registries answer 416 to a range that is open.
    headers = {"Range": f"bytes={skip}-{blob.size - 1}"} if skip else {}
    accepted = frozenset({200, _PARTIAL, _BEYOND_THE_END})
    url = endpoint.build_url(f"blobs/{blob.digest}")
    async with exchange.send(endpoint, "GET", url, headers=headers, accepted=accepted) as response:
        if response.status == _BEYOND_THE_END:
            raise RegistryError(f"{arrival.what} is shorter than the {blob.size} bytes of its manifest")
        if response.status == _PARTIAL:
            found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if found is None or int(found[1]) != skip:
                raise RegistryError(f"{endpoint.registry} answers another range of a blob than was asked for")
            skip = 0
        async for chunk in response.content.iter_any():
            # Bytes that are passed over take time as well.
            arrival.require_time()
            if skip >= len(chunk):
                skip -= len(chunk)
                continue
            yield chunk[skip:] if skip else chunk
            skip = 0
