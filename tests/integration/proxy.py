"""A proxy between a client and the API server that breaks what a test wants broken.

Plain HTTP on the client's side, so that it sees which request begins; TLS with the admin's certificate on the other.
Bytes pass as they are, and each connection has one of its own behind it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Self

from faults.gate import Gate
from faults.link import CHUNK, Streams
from ports import free_port


class Fault(Enum):
    PASS = 0
    LOSE_REQUEST = 1
    LOSE_ANSWER = 2


class Proxy(Gate):
    """Use as an asynchronous context manager.

    `decide` is asked at the first line of each request; where that has a key of `instead`, its value is the answer.
    Watches of pods alone are delayed.
    """

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        super().__init__("proxy", kubeconfig, folder, free_port())
        self._tasks = set[asyncio.Task[None]]()
        self.decide: Callable[[str], Fault] = lambda _: Fault.PASS
        self.instead: dict[str, bytes] = {}
        # Requests whose first line has this part pass once `released` is set, even if their client is gone.
        self.held_part = ""
        self.held = asyncio.Event()
        self.released = asyncio.Event()
        self._answers: dict[asyncio.StreamWriter, asyncio.Future[bytes]] = {}
        # The first line of the answer to the last one.
        self.answered = b""
        self.requests: list[str] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.released.set()
        self.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def close(self) -> None:
        """Cut every connection and take no new ones until the next start: the API server is away."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    async def dial(self) -> Streams:
        streams = await super().dial()
        if self._server is None:
            # It was closed meanwhile, when this connection was not among those that are cut.
            streams[1].transport.abort()
            raise ConnectionAbortedError
        return streams

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await super()._serve(reader, writer)

    async def forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, behind: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(CHUNK):
            # Our client writes the head of a request at once, so a chunk begins with its line or with none.
            line = data.partition(b"\r\n")[0].decode(errors="replace")
            fault = Fault.PASS
            if line.endswith(" HTTP/1.1"):
                self.requests.append(line)
                fault = self.decide(line)
            if "/api/v1/pods?" in line and "watch=" in line:
                self._watching.add(writer)
            if fault is Fault.LOSE_REQUEST:
                return
            if fault is Fault.LOSE_ANSWER:
                self._muted.add(writer)
            canned = next((answer for part, answer in self.instead.items() if part in line), None)
            if self.held_part and self.held_part in line:
                self.held.set()
                await self.released.wait()
                self._answers[writer] = asyncio.get_running_loop().create_future()
                behind.write(data)
                await behind.drain()
                self.answered = await self._answers[writer]
            elif canned is not None:
                writer.write(canned)
                await writer.drain()
            else:
                behind.write(data)
                await behind.drain()

    async def bring_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await super().bring_back(reader, writer)
        finally:
            self._answer(writer, b"")

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        data = await super()._receive(reader, writer)
        self._answer(writer, data)
        return data

    def _answer(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        if (answer := self._answers.get(writer)) is not None and not answer.done():
            answer.set_result(data.partition(b"\r\n")[0])


def build_refusal(status: int, reason: str) -> bytes:
    """Return a refusal in the API server's format."""
    body = json.dumps({"kind": "Status", "code": status, "reason": reason, "message": f"{reason} by the test"}).encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
