"""A proxy between a client and the API server that breaks what a test wants broken.

Plain HTTP on the client's side, so that it sees which request begins; TLS with the admin's certificate on the other.
Bytes pass as they are, and each connection has one of its own behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from accelkit.kube.connection import load_connection


class Fault(Enum):
    PASS = 0
    LOSE_REQUEST = 1
    LOSE_ANSWER = 2


class Proxy:
    """Use as an asynchronous context manager.

    `decide` is asked at the first line of each request; where that has a key of `instead`, its value is the answer.
    """

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        connection = load_connection(kubeconfig)
        self._tls = connection.tls
        self._behind = urlsplit(connection.server)
        self._server: asyncio.Server | None = None
        self._port = 0
        self._open: dict[asyncio.StreamWriter, asyncio.StreamWriter] = {}
        self._muted = set[asyncio.StreamWriter]()
        self._watching = set[asyncio.StreamWriter]()
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
        # So much later a watch of pods shows what happens.
        self.watch_delay_seconds = 0.0
        self.requests: list[str] = []
        self.kubeconfig = folder / "proxy.kubeconfig"

    async def __aenter__(self) -> Self:
        await self.open()
        cluster = {"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{self._port}"}}
        context = {"name": "proxy", "context": {"cluster": "proxy"}}
        document = {"clusters": [cluster], "contexts": [context], "current-context": "proxy"}
        self.kubeconfig.write_text(json.dumps(document))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.released.set()
        await self.shut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def open(self) -> None:
        """Take connections, at the same port as before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Cut every connection and take no new ones: the API server is away."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.cut()

    def cut(self) -> None:
        """Cut every connection; new ones are taken."""
        for pair in list(self._open.items()):
            for writer in pair:
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        behind: asyncio.StreamWriter | None = None
        try:
            answers, behind = await asyncio.open_connection(
                self._behind.hostname, self._behind.port, ssl=self._tls, server_hostname=self._behind.hostname
            )
            self._open[writer] = behind
            back = asyncio.create_task(self._pipe(answers, writer))
            await self._forward(reader, writer, behind)
            await back
        except OSError:
            pass
        finally:
            self._open.pop(writer, None)
            self._muted.discard(writer)
            self._watching.discard(writer)
            for each in (writer, behind):
                if each is not None:
                    each.transport.abort()
                    with contextlib.suppress(OSError):
                        await each.wait_closed()

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, behind: asyncio.StreamWriter
    ) -> None:
        while data := await reader.read(65536):
            # Our client writes the head of a request at once, so a chunk begins with its line or with none.
            line = data.partition(b"\r\n")[0].decode(errors="replace")
            fault = Fault.PASS
            if line.endswith(" HTTP/1.1"):
                self.requests.append(line)
                fault = self.decide(line)
            if "/api/v1/pods?" in line and "watch=" in line:
                self._watching.add(writer)
            if fault is Fault.LOSE_REQUEST:
                writer.transport.abort()
                behind.transport.abort()
                return
            if fault is Fault.LOSE_ANSWER:
                self._muted.add(writer)
            if self.held_part and self.held_part in line:
                self.held.set()
                await self.released.wait()
                self._answers[writer] = asyncio.get_running_loop().create_future()
                behind.write(data)
                await behind.drain()
                self.answered = await self._answers[writer]
                continue
            canned = next((answer for part, answer in self.instead.items() if part in line), None)
            if canned is not None:
                writer.write(canned)
                await writer.drain()
                continue
            behind.write(data)
            await behind.drain()
        behind.transport.abort()

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if (answer := self._answers.get(writer)) is not None and not answer.done():
                    answer.set_result(data.partition(b"\r\n")[0])
                if writer in self._muted:
                    # The answer has come, so the request has taken effect, but the client does not get it.
                    break
                if writer in self._watching and self.watch_delay_seconds:
                    await asyncio.sleep(self.watch_delay_seconds)
                writer.write(data)
                await writer.drain()
        if (answer := self._answers.get(writer)) is not None and not answer.done():
            answer.set_result(b"")
        writer.transport.abort()


def build_refusal(status: int, reason: str) -> bytes:
    """Return a refusal in the API server's format."""
    body = json.dumps({"kind": "Status", "code": status, "reason": reason, "message": f"{reason} by the test"}).encode()
    head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
