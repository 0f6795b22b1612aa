"""The events of one watch, sent twice or in another order.

An API server sends each event once and in order. A client still gets an event again when it resumes a watch at an older
resource version, and caches between it and etcd have sent events in another order. No event is lost here: two events
change places within one write, so that a connection that is cut has passed on both or none.
"""

from __future__ import annotations

import json

# Until these, everything that happened before must have arrived.
BARRIERS = ("BOOKMARK", "ERROR")


class EventStream:
    """The answer to a watch: its head, and chunks with a line of JSON for each event.

    Any other answer passes unchanged.

    Attributes:
        repeats: whether each event is sent twice.
        swaps: whether events of different objects change places.
    """

    def __init__(self, *, repeats: bool, swaps: bool) -> None:
        self.repeats, self.swaps = repeats, swaps
        self._data = b""
        self._line = b""
        self._held: bytes | None = None
        self._take = self._take_head

    @property
    def holds(self) -> bool:
        """Whether an event waits for the one with which it changes places."""
        return self._held is not None

    def feed(self, data: bytes) -> bytes:
        """Take what the server sends; return what is passed on now."""
        self._data += data
        out = b""
        while (part := self._take()) is not None:
            out += part
        return out

    def flush(self) -> bytes:
        """Return the event that waits."""
        held, self._held = self._held, None
        return b"" if held is None else self._encode(held)

    def _take_head(self) -> bytes | None:
        head, end, rest = self._data.partition(b"\r\n\r\n")
        if not end:
            return None
        self._data = rest
        names = head.lower()
        watched = b"transfer-encoding: chunked" in names and b"content-type: application/json" in names
        self._take = self._take_chunk if watched else self._take_all
        return head + end

    def _take_all(self) -> bytes | None:
        data, self._data = self._data, b""
        return data or None

    def _take_chunk(self) -> bytes | None:
        size, end, rest = self._data.partition(b"\r\n")
        if not end or len(rest) < (length := int(size, 16)) + 2:
            return None
        self._data = rest[length + 2 :]
        if not length:
            self._take = self._take_all
            return self.flush() + b"0\r\n\r\n"
        *lines, self._line = (self._line + rest[:length]).split(b"\n")
        return b"".join(self._pass_on(line + b"\n") for line in lines)

    def _pass_on(self, line: bytes) -> bytes:
        if not self.swaps or _read(line)[0] in BARRIERS:
            return self.flush() + self._encode(line)
        held, self._held = self._held, line
        if held is None:
            return b""
        if _read(held)[1] == _read(line)[1]:
            return self._encode(held)
        self._held = None
        return self._encode(line) + self._encode(held)

    def _encode(self, line: bytes) -> bytes:
        return (b"%x\r\n%s\r\n" % (len(line), line)) * (2 if self.repeats and _read(line)[0] not in BARRIERS else 1)


def _read(line: bytes) -> tuple[str, str]:
    """Return the type of an event, and what identifies its object."""
    event = json.loads(line)
    metadata = event["object"].get("metadata", {})
    return event["type"], f"{metadata.get('namespace')}/{metadata.get('name')}"
