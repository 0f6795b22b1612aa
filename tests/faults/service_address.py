"""The address of a Service, which leads to the endpoint that its EndpointSlice names, as kube-proxy has it.

A connection stays with the endpoint to which it was made, whatever the EndpointSlice says later.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
from faults.link import Link, Streams

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient

POLL_SECONDS = 0.5


class ServiceAddress(Link):
    """A link to the endpoint of a Service.

    Args:
        api: an open client of the API server.
        path: of the EndpointSlice.
        port: where to listen.
    """

    def __init__(self, api: ApiClient, path: str, port: int) -> None:
        super().__init__(port)
        self._api, self._path = api, path
        self._endpoint: int | None = None

    async def run(self) -> None:
        """Follow the EndpointSlice until cancelled."""
        while True:
            with contextlib.suppress(ApiError, LookupError, msgspec.MsgspecError):
                found = msgspec.json.decode(await self._api.get(self._path))
                self._endpoint = found["ports"][0]["port"] if found["endpoints"] else None
            await asyncio.sleep(POLL_SECONDS)

    async def dial(self) -> Streams:
        if self._endpoint is None:
            raise ConnectionRefusedError
        return await asyncio.open_connection("127.0.0.1", self._endpoint)
