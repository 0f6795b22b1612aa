"""Lets a cache have claims only once pods that mount them are sent to the webhook."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Final

from accelkit.cachecontroller.webhook.registration import Registration
from accelkit.errors import AccelkitError
from accelkit.gkm.objects import Cache

log = logging.getLogger(__name__)

# Until API servers ask by a configuration that was just written: of a hundred, a busy one took 0.03 s for the slowest.
_SPREAD_SECONDS: Final = 0.2
# Others may change the configuration, certificates are renewed, and caches go.
_LOOK_SECONDS: Final = 30.0
# Until we see that we lead.
_BEGIN_SECONDS: Final = 0.5
# Whoever is slow to write is slow to watch: it is as many times what the write took, where that is longer.
_SPREAD_WRITES: Final = 3.0
# Between two writes in the long run: each is kept for minutes by etcd, and has every API server compile the expression
# again.
_WRITE_SECONDS: Final = 1.0
# Ahead of that: the caches of one file come one after the other.
_WRITES_AHEAD: Final = 20
# The API server waits 5 s for us.
_MOST_SPREAD_SECONDS: Final = 2.0


class Gate:
    """Keeps the webhook's configuration, ahead of what it is for.

    Args:
        registration: writes it.
        caches: all that there are.
        leads: whether we may write now.
    """

    def __init__(
        self, registration: Registration, caches: Callable[[], Iterable[Cache]], leads: Callable[[], bool]
    ) -> None:
        self._registration, self._caches, self._leads = registration, caches, leads
        self._turn = asyncio.Lock()
        self._announced: list[Cache] = []
        # Seconds that the API server needs, by the last write.
        self._spread = 0.0
        # When the writes so far would have been over, one after the other.
        self._written_until = float("-inf")

    async def announce(self, cache: Cache) -> None:
        """Have pods that mount a cache sent to the webhook before it is there, by any replica; returns when they are.

        Raises:
            ApiError: the API server refused, or did not answer.
            ConfigurationError: the certificate cannot be read.
        """
        self._announced.append(cache)
        async with self._turn:
            if self._announced:
                await self._pause()
            began = time.monotonic()
            # One write is for all that were announced meanwhile.
            if batch := self._announced:
                self._announced = []
                try:
                    await self._keep(batch)
                except BaseException:
                    # The others of them try for themselves.
                    self._announced = [*(each for each in batch if each is not cache), *self._announced]
                    raise
                self._spread = min(_MOST_SPREAD_SECONDS, _SPREAD_WRITES * (time.monotonic() - began))
        await asyncio.sleep(max(_SPREAD_SECONDS, self._spread))

    async def open(self, cache: Cache) -> None:
        """Have pods that mount a cache sent to the webhook.

        Raises:
            ApiError: the API server refused, or did not answer.
            ConfigurationError: the certificate cannot be read.
        """
        async with self._turn:
            # One write is for all caches that are there, so the others of a swarm find it done.
            if not self._registration.covers(cache):
                await self._pause()
                await self._keep()

    async def run(self) -> None:
        """Look at the configuration, at once where we begin to lead and then now and then, until cancelled.

        Before it is there, nothing is announced: pods that come right behind the first cache would come too early.
        """
        while True:
            if not self._leads():
                await asyncio.sleep(_BEGIN_SECONDS)
                continue
            try:
                async with self._turn:
                    if await self._keep():
                        log.info("the webhook's configuration was written")
            except AccelkitError as exc:
                log.warning("the webhook's configuration cannot be kept: %s", exc)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _pause(self) -> None:
        """Wait until there may be another write; the first ones after a while are made at once."""
        await asyncio.sleep(max(0.0, self._written_until - _WRITES_AHEAD * _WRITE_SECONDS - time.monotonic()))

    async def _keep(self, announced: Iterable[Cache] = ()) -> bool:
        wrote = await self._registration.keep(list(self._caches()), announced)
        if wrote:
            self._written_until = max(self._written_until, time.monotonic()) + _WRITE_SECONDS
        return wrote
