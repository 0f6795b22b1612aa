"""Relays of TCP connections for benchmarks: a way to an API server that can be cut, and a Service's address."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress


class Relay:
    """Passes the bytes of each connection to where `find_target` says when the connection begins.

    A connection stays where it began, as those that kube-proxy forwards do.

    Attributes:
        port: on the loopback address.
    """

    def __init__(self, find_target: Callable[[], int | None]) -> None:
        self._find_target = find_target
        self._server: asyncio.Server | None = None
        self._tasks = set[asyncio.Task[None]]()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.port = 0

    async def open(self) -> None:
        """Accept connections, at the same port each time."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Reset all connections and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hold(self) -> None:
        """Pass nothing on from now on, and keep all connections."""
        self._flowing.clear()

    def resume(self) -> None:
        """Pass on what was held."""
        self._flowing.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        behind: asyncio.StreamWriter | None = None
        try:
            await self._flowing.wait()
            port = self._find_target()
            if port is not None:
                answers, behind = await asyncio.open_connection("127.0.0.1", port)
                pipes = [self._pipe(reader, behind), self._pipe(answers, writer)]
                _, left = await asyncio.wait(
                    [asyncio.create_task(each) for each in pipes], return_when=asyncio.FIRST_COMPLETED
                )
                for each in left:
                    each.cancel()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            for end in (writer, behind):
                if end is not None:
                    end.transport.abort()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
