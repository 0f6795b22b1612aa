"""The address of a Service, which leads to the endpoint that its EndpointSlice names, as kube-proxy has it.

A connection stays with the endpoint to which it was made, whatever the EndpointSlice says later.
"""

from __future__ import annotations

import asyncio
import contextlib

import msgspec

from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient

POLL_SECONDS = 0.5


class ServiceAddress:
    """A listener on the loopback address.

    Args:
        api: an open client of the API server.
        path: of the EndpointSlice.
        port: where to listen.
    """

    def __init__(self, api: ApiClient, path: str, port: int) -> None:
        self._api, self._path, self.port = api, path, port
        self._server: asyncio.Server | None = None
        self._endpoint: int | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def run(self) -> None:
        """Serve until cancelled."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        try:
            while True:
                with contextlib.suppress(ApiError, LookupError, msgspec.MsgspecError):
                    found = msgspec.json.decode(await self._api.get(self._path))
                    self._endpoint = found["ports"][0]["port"] if found["endpoints"] else None
                await asyncio.sleep(POLL_SECONDS)
        finally:
            self._server.close()
            for writer in list(self._open):
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        behind: asyncio.StreamWriter | None = None
        try:
            answers, behind = await asyncio.open_connection("127.0.0.1", self._endpoint or 1)
            async with asyncio.TaskGroup() as group:
                group.create_task(_pipe(reader, behind))
                group.create_task(_pipe(answers, writer))
        except (OSError, ExceptionGroup):
            pass
        finally:
            self._open.discard(writer)
            for each in (writer, behind):
                if each is not None:
                    each.transport.abort()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    # The end of one direction ends the other: neither HTTP client here closes halfway.
    writer.transport.abort()
    raise ConnectionError
