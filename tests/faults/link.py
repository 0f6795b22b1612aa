"""A listener whose connections lead to another port, and can be cut, slowed and stalled."""

from __future__ import annotations

import asyncio
import contextlib

CHUNK = 65536

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Link:
    """A way between two processes on the loopback address; each connection has one of its own behind it.

    Attributes:
        delay_seconds: how much later every part of every connection arrives.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.delay_seconds = 0.0
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        self._moving = asyncio.Event()
        self._moving.set()
        self._shut = False

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)

    async def stop(self) -> None:
        self.shut()
        if self._server is not None:
            self._server.close()

    def shut(self) -> None:
        """Cut every connection, and each new one at once."""
        self._shut = True
        self.cut()

    def cut(self) -> None:
        """Cut every connection; new ones pass."""
        self._abort(list(self._open))

    def stall(self) -> None:
        """Let nothing pass any more on connections that stay open, and on new ones."""
        self._moving.clear()

    def repair(self) -> None:
        """End every fault; what was held up passes now."""
        self._shut = False
        self.delay_seconds = 0.0
        self._moving.set()

    async def dial(self) -> Streams:
        """Open the connection behind a new one.

        Raises:
            OSError: nothing listens there.
        """
        raise NotImplementedError

    async def forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,  # noqa: ARG002 - others answer it themselves
        behind: asyncio.StreamWriter,
    ) -> None:
        """Pass on what the client of `writer` sends, until it ends."""
        await self._pass_on(reader, behind)

    async def bring_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what the other side answers to the client of `writer`, until it ends."""
        await self._pass_on(reader, writer)

    async def hold_up(self) -> None:
        """Wait for as long as a part of a connection is held up."""
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        await self._moving.wait()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self.hold_up()
            writer.write(data)
            await writer.drain()

    def _abort(self, writers: list[asyncio.StreamWriter]) -> None:
        for writer in writers:
            writer.transport.abort()
            if (behind := self._open.get(writer)) is not None:
                behind.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind: asyncio.StreamWriter | None = None
        back: asyncio.Task[None] | None = None
        try:
            if self._shut:
                return
            await self._moving.wait()
            answers, behind = await self.dial()
            self._open[writer] = behind
            back = asyncio.create_task(self._bring_all_back(answers, writer))
            await self.forward(reader, writer, behind)
        except OSError:
            pass
        finally:
            self._open.pop(writer, None)
            self.forget(writer)
            for each in (writer, behind):
                if each is not None:
                    each.transport.abort()
            if back is not None:
                back.cancel()
                await asyncio.gather(back, return_exceptions=True)

    async def _bring_all_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await self.bring_back(reader, writer)
        # The end of one direction ends the other: no HTTP client here closes halfway.
        writer.transport.abort()

    def forget(self, writer: asyncio.StreamWriter) -> None:
        """Forget a connection that has ended."""
