"""The way of one process to the API server, on which a storm breaks what a network or a load balancer can break.

Plain HTTP on the side of the process, so that the gate sees which request begins; TLS with the administrator's
certificate on the other side. Bytes pass unchanged, and each connection has one of its own behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from urllib.parse import urlsplit

from accelkit.kube.connection import load_connection

CHUNK = 65536
WRITES = ("POST ", "PUT ", "PATCH ", "DELETE ")
GONE = json.dumps(
    {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "Expired",
        "code": 410,
        "message": "too old resource version: of the laboratory",
    }
).encode()
GONE_ANSWER = (
    b"HTTP/1.1 410 Gone\r\nContent-Type: application/json\r\nContent-Length: " + str(len(GONE)).encode() + b"\r\n\r\n"
)


class Gate:
    """A listener on the loopback address; `kubeconfig` leads there.

    Attributes:
        delay_seconds: how much later every part of every connection arrives.
        watch_delay_seconds: how much later watches report events, while lists and writes are answered at once.
        loses_requests: whether connections are cut when a write begins, before it is sent on.
        loses_answers: whether connections are cut when a write was done, before its answer arrives.
    """

    def __init__(self, name: str, admin: Path, folder: Path, port: int) -> None:
        connection = load_connection(admin)
        self._tls = connection.tls
        self._behind = urlsplit(connection.server)
        self.port = port
        self._server: asyncio.Server | None = None
        self._open: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        self._watching: set[asyncio.StreamWriter] = set()
        self._muted: set[asyncio.StreamWriter] = set()
        self._expired: set[str] | None = None
        self._moving = asyncio.Event()
        self._moving.set()
        self._shut = False
        self.name = name
        self.delay_seconds = self.watch_delay_seconds = 0.0
        self.loses_requests = self.loses_answers = False
        self.kubeconfig = folder / f"{name}.gate.kubeconfig"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        cluster = {"name": "gate", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}
        context = {"name": "gate", "context": {"cluster": "gate", "user": ""}}
        document = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context]}
        self.kubeconfig.write_text(json.dumps({**document, "current-context": "gate"}))

    async def stop(self) -> None:
        self.shut()
        if self._server is not None:
            self._server.close()

    @property
    def watches(self) -> int:
        """The number of watches that are open."""
        return len(self._watching)

    def shut(self) -> None:
        """Cut every connection, and each new one at once."""
        self._shut = True
        self.cut()

    def cut(self) -> None:
        """Cut every connection; new ones pass."""
        self._abort(list(self._open))

    def drop_watches(self) -> None:
        """Cut the connections of watches alone."""
        self._abort(list(self._watching))

    def expire_watches(self) -> None:
        """Cut all watches, and answer the next request for each of them with 410 Gone."""
        self._expired = set()
        self.drop_watches()

    def stall(self) -> None:
        """Let nothing pass any more on connections that stay open, and on new ones."""
        self._moving.clear()

    def mend(self) -> None:
        """End every fault; what was held up passes now."""
        self._shut = self.loses_requests = self.loses_answers = False
        self.delay_seconds = self.watch_delay_seconds = 0.0
        self._expired = None
        self._moving.set()

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
            answers, behind = await asyncio.open_connection(self._behind.hostname, self._behind.port, ssl=self._tls)
            self._open[writer] = behind
            back = asyncio.create_task(self._return(answers, writer))
            await self._forward(reader, writer, behind)
        except OSError:
            pass
        finally:
            self._open.pop(writer, None)
            self._watching.discard(writer)
            self._muted.discard(writer)
            for each in (writer, behind):
                if each is not None:
                    each.transport.abort()
            if back is not None:
                back.cancel()
                await asyncio.gather(back, return_exceptions=True)

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, behind: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(CHUNK):
            await self._hold_up()
            # Clients write the head of a request at once, so a chunk begins with its first line or with none.
            line = data.partition(b"\r\n")[0].decode(errors="replace")
            if line.endswith(" HTTP/1.1"):
                if "watch=" in line:
                    if self._expired is not None and (path := line.partition("?")[0]) not in self._expired:
                        self._expired.add(path)
                        writer.write(GONE_ANSWER + GONE)
                        await writer.drain()
                        continue
                    self._watching.add(writer)
                else:
                    self._watching.discard(writer)
                if line.startswith(WRITES):
                    if self.loses_requests:
                        return
                    if self.loses_answers:
                        self._muted.add(writer)
            behind.write(data)
            await behind.drain()

    async def _return(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._hold_up()
                if writer in self._muted:
                    break
                if writer in self._watching and self.watch_delay_seconds:
                    await asyncio.sleep(self.watch_delay_seconds)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()

    async def _hold_up(self) -> None:
        if self.delay_seconds:
            await asyncio.sleep(self.delay_seconds)
        await self._moving.wait()
