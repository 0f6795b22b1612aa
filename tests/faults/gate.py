"""The way of one process to the API server, on which a storm breaks what a network or a load balancer can break.

Plain HTTP on the side of the process, so that the gate sees which request begins; TLS with the administrator's
certificate on the other side. Bytes pass unchanged.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from urllib.parse import urlsplit

from faults.link import CHUNK, Link, Streams

from accelkit.kube.connection import load_connection

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
GONE_HEAD = f"HTTP/1.1 410 Gone\r\nContent-Type: application/json\r\nContent-Length: {len(GONE)}\r\n\r\n".encode()


class Gate(Link):
    """A link to the API server; `kubeconfig` leads there.

    Attributes:
        watch_delay_seconds: how much later watches report events, while lists and writes are answered at once.
        loses_requests: whether connections are cut when a write begins, before it is sent on.
        loses_answers: whether connections are cut when a write was done, before its answer arrives.
    """

    def __init__(self, name: str, admin: Path, folder: Path, port: int) -> None:
        super().__init__(port)
        connection = load_connection(admin)
        self._tls = connection.tls
        self._behind = urlsplit(connection.server)
        self._watching: set[asyncio.StreamWriter] = set()
        self._muted: set[asyncio.StreamWriter] = set()
        self._expired: set[str] | None = None
        self.watch_delay_seconds = 0.0
        self.loses_requests = self.loses_answers = False
        self.kubeconfig = folder / f"{name}.gate.kubeconfig"

    async def start(self) -> None:
        await super().start()
        cluster = {"name": "gate", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}
        context = {"name": "gate", "context": {"cluster": "gate", "user": ""}}
        document = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "contexts": [context]}
        self.kubeconfig.write_text(json.dumps({**document, "current-context": "gate"}))

    @property
    def watches(self) -> int:
        """The number of watches that are open."""
        return len(self._watching)

    def drop_watches(self) -> None:
        """Cut the connections of watches alone."""
        self._abort(list(self._watching))

    def expire_watches(self) -> None:
        """Cut all watches, and answer the next request for each of them with 410 Gone."""
        self._expired = set()
        self.drop_watches()

    def mend(self) -> None:
        self.loses_requests = self.loses_answers = False
        self.watch_delay_seconds = 0.0
        self._expired = None
        super().mend()

    async def dial(self) -> Streams:
        return await asyncio.open_connection(self._behind.hostname, self._behind.port, ssl=self._tls)

    async def forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, behind: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(CHUNK):
            await self.hold_up()
            # Clients write the head of a request at once, so a chunk begins with its first line or with none.
            line = data.partition(b"\r\n")[0].decode(errors="replace")
            if line.endswith(" HTTP/1.1"):
                if self._is_expired(line):
                    writer.write(GONE_HEAD + GONE)
                    await writer.drain()
                    continue
                if self.loses_requests and line.startswith(WRITES):
                    return
                self._note_request(writer, line)
            behind.write(data)
            await behind.drain()

    def _is_expired(self, line: str) -> bool:
        path = line.partition("?")[0]
        if "watch=" not in line or self._expired is None or path in self._expired:
            return False
        self._expired.add(path)
        return True

    def _note_request(self, writer: asyncio.StreamWriter, line: str) -> None:
        if "watch=" in line:
            self._watching.add(writer)
        else:
            self._watching.discard(writer)
        if self.loses_answers and line.startswith(WRITES):
            self._muted.add(writer)

    async def bring_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(CHUNK):
            await self.hold_up()
            if writer in self._muted:
                return
            if writer in self._watching and self.watch_delay_seconds:
                await asyncio.sleep(self.watch_delay_seconds)
            writer.write(data)
            await writer.drain()

    def forget(self, writer: asyncio.StreamWriter) -> None:
        self._watching.discard(writer)
        self._muted.discard(writer)
