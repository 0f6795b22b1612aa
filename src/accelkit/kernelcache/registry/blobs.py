"""Blob downloads that resume after interruptions, compute the hash, and are limited to the announced size."""

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

# The maximum number of consecutive interruptions without received data, and of all interruptions.
_BREAKS_IN_A_ROW = 4
_BREAKS_AT_MOST = 32
# The time limit of a transfer is this time, in seconds, plus the time for the bytes at the minimum speed.
_GRACE_SECONDS = 120
# For smaller chunks, the overhead of a thread exceeds the time for the hash.
_HASH_HERE_BYTES = 64 << 10
_PARTIAL = 206
_BEYOND_THE_END = 416
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,19})-[0-9]{1,19}/(?:[0-9]{1,19}|\*)")


async def stream_blob(exchange: Exchange, endpoint: RegistryEndpoint, blob: Descriptor) -> AsyncGenerator[bytes]:
    """Yield the bytes of a blob as they arrive. They are verified only if the iteration completes without an error.

    Args:
        exchange: an open exchange.
        endpoint: the endpoint to read from.
        blob: the descriptor from a manifest, with the digest and size of the blob.

    Raises:
        RegistryError: the blob is missing, has a different size or digest, or the transfer was interrupted too many
            times.
    """
    transfer = _Transfer(blob, f"blob {blob.digest[:19]}… of {endpoint.registry}/{endpoint.repository}")
    while not transfer.complete:
        reason = "the response ended early"
        try:
            async with contextlib.aclosing(_stream_rest(exchange, endpoint, blob, transfer)) as chunks:
                async for chunk in chunks:
                    await transfer.take(chunk)
                    yield chunk
        except (aiohttp.ClientError, OSError) as exc:
            reason = str(exc) or type(exc).__name__
        if not transfer.complete:
            await exchange.sleep(transfer.plan_pause(reason))
    await transfer.verify()


class _Transfer:
    """The progress of a download: the offset, the hash of the received bytes, and the number of interruptions."""

    def __init__(self, blob: Descriptor, name: str) -> None:
        self.offset = 0
        self._blob = blob
        self.name = name
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
            raise RegistryError(f"{self.name} is longer than the {self._blob.size} bytes that its manifest states")
        await self._finish_hashing()
        if len(chunk) < _HASH_HERE_BYTES:
            self._hash.update(chunk)
        else:
            # The chunk is hashed in a thread while the next chunk arrives.
            self._hashing = self._loop.run_in_executor(None, self._hash.update, chunk)

    def require_time(self) -> None:
        if self._loop.time() > self._deadline:
            raise RegistryError(
                f"the transfer of {self.name} is too slow: {self.offset} of {self._blob.size} bytes", retryable=True
            )

    def plan_pause(self, reason: str) -> float:
        """Return the time to wait before the next attempt, in seconds."""
        self.require_time()
        self._breaks += 1
        self._breaks_in_a_row += 1
        if self._breaks_in_a_row > _BREAKS_IN_A_ROW or self._breaks > _BREAKS_AT_MOST:
            raise RegistryError(f"the transfer of {self.name} was interrupted too often: {reason}", retryable=True)
        return float(min(0.1 * 2**self._breaks_in_a_row, 5))

    async def verify(self) -> None:
        await self._finish_hashing()
        digest = f"sha256:{self._hash.hexdigest()}"
        if digest != self._blob.digest:
            raise RegistryError(f"{self.name} has the digest {digest}: it was changed or damaged in transit")

    async def _finish_hashing(self) -> None:
        if self._hashing is not None:
            await self._hashing
            self._hashing = None


async def _stream_rest(
    exchange: Exchange, endpoint: RegistryEndpoint, blob: Descriptor, transfer: _Transfer
) -> AsyncGenerator[bytes]:
    """Yield the remaining bytes, even if the registry does not support range requests."""
    skip = transfer.offset
    # The range specifies its end, because some registries respond with status 416 to a range without an end.
    headers = {"Range": f"bytes={skip}-{blob.size - 1}"} if skip else {}
    accepted = frozenset({200, _PARTIAL, _BEYOND_THE_END})
    url = endpoint.build_url(f"blobs/{blob.digest}")
    async with exchange.send(endpoint, "GET", url, headers=headers, accepted=accepted) as response:
        if response.status == _BEYOND_THE_END:
            raise RegistryError(f"{transfer.name} is shorter than the {blob.size} bytes that its manifest states")
        if response.status == _PARTIAL:
            found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            if found is None or int(found[1]) != skip:
                raise RegistryError(f"{endpoint.registry} returned a different range of a blob than requested")
            skip = 0
        async for chunk in response.content.iter_any():
            # The time limit includes the time for skipped bytes.
            transfer.require_time()
            if skip >= len(chunk):
                skip -= len(chunk)
                continue
            yield chunk[skip:] if skip else chunk
            skip = 0
