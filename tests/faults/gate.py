"""The way of one process to the API server, on which a storm breaks what a network or a load balancer can break.

Plain HTTP on the side of the process, so that the gate sees which request begins; TLS with the administrator's
certificate on the other side. Bytes pass unchanged, but for the events of watches where a fault changes them.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

from faults.events import EventStream
from faults.link import CHUNK, Link, Streams

from accelkit.kube.connection import load_connection

VERSION = re.compile(rb"resourceVersion=([1-9]\d*)")
# So many writes before the one that a client has seen last.
REWIND = 30
FLUSH_SECONDS = 0.5
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
        repeats_events: whether watches that begin now get each event twice.
        swaps_events: whether watches that begin now get events of different objects in another order.
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
        self._rewound: set[str] | None = None
        self._events: dict[asyncio.StreamWriter, EventStream] = {}
        self.repeats_events = self.swaps_events = False
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

    def rewind_watches(self) -> None:
        """Cut all watches, and let the next one of each begin at an older version than its client asks for."""
        self._rewound = set()
        self.drop_watches()

    def repeat_events(self) -> None:
        """Cut all watches, and send each event twice from now on."""
        self.repeats_events = True
        self.drop_watches()

    def swap_events(self) -> None:
        """Cut all watches, and send events in another order from now on."""
        self.swaps_events = True
        self.drop_watches()

    def repair(self) -> None:
        self.loses_requests = self.loses_answers = False
        self.repeats_events = self.swaps_events = False
        self._rewound = None
        for stream in self._events.values():
            stream.repeats = stream.swaps = False
        self.watch_delay_seconds = 0.0
        self._expired = None
        super().repair()

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
                if self._is_first(line, self._rewound):
                    data = VERSION.sub(_rewind, data, count=1)
            behind.write(data)
            await behind.drain()

    def _is_expired(self, line: str) -> bool:
        return self._is_first(line, self._expired)

    @staticmethod
    def _is_first(line: str, seen: set[str] | None) -> bool:
        """Return whether a request is a watch, and the first one of its path since a fault began."""
        path = line.partition("?")[0]
        if "watch=" not in line or seen is None or path in seen:
            return False
        seen.add(path)
        return True

    def _note_request(self, writer: asyncio.StreamWriter, line: str) -> None:
        self._events.pop(writer, None)
        if "watch=" in line:
            self._watching.add(writer)
            if self.repeats_events or self.swaps_events:
                self._events[writer] = EventStream(repeats=self.repeats_events, swaps=self.swaps_events)
        else:
            self._watching.discard(writer)
        if self.loses_answers and line.startswith(WRITES):
            self._muted.add(writer)

    async def bring_back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await self._receive(reader, writer):
            await self.hold_up()
            if writer in self._muted:
                return
            if writer in self._watching and self.watch_delay_seconds:
                await asyncio.sleep(self.watch_delay_seconds)
            writer.write(data)
            await writer.drain()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """Return what is passed on next; nothing at the end of the connection."""
        while True:
            events = self._events.get(writer)
            try:
                holds = events is not None and events.holds
                data = await asyncio.wait_for(reader.read(CHUNK), FLUSH_SECONDS if holds else None)
            except TimeoutError:
                if events is not None:
                    return events.flush()
                continue
            # The request that this answers may have come meanwhile.
            events = self._events.get(writer)
            if events is None or not data:
                return data
            if passed := events.feed(data):
                return passed

    def forget(self, writer: asyncio.StreamWriter) -> None:
        self._watching.discard(writer)
        self._muted.discard(writer)
        self._events.pop(writer, None)


def _rewind(match: re.Match[bytes]) -> bytes:
    return b"resourceVersion=%d" % max(1, int(match[1]) - REWIND)
