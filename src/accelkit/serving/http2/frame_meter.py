"""Counts the frames that a client sends beside its requests and their bodies, before anything else looks at them.

Each frame costs this process far more than its sender: an acknowledgement, a lookup, a stream that was begun in vain.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

# So much a connection has to spend, and is given anew each second.
_MOST: Final = 2000.0
_PER_SECOND: Final = 1.0
# What was begun for a stream that is given up, and settings, each of which is looked at, cost more than other frames.
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _CONTINUATION = 0, 1, 3, 4, 9
_COSTS: Final = {_RST_STREAM: 10.0, _SETTINGS: 10.0}
# A client acknowledges what it was sent by two frames for each 4 KiB at the most.
_BYTES_PER_FRAME: Final = 2048
# Bodies come in long frames; short ones, which are nothing but frames, cost as much as any other.
_SHORT_BYTES: Final = 256
# One head, as it is encoded.
_HEAD_BYTES: Final = 32 * 1024
# Of a frame that is neither head nor body.
_OTHER_BYTES: Final = 4096

_PREFACE_BYTES: Final = 24
_FRAME_HEAD_BYTES: Final = 9
_END_STREAM, _END_HEADERS = 0x1, 0x4


class FloodError(ProtocolError):
    """A client sends more than anybody needs to."""

    error_code = ErrorCodes.ENHANCE_YOUR_CALM


class FrameMeter:
    """What one connection may still spend.

    Args:
        clock: seconds on a clock that never jumps.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left, self._seen_at = _MOST, clock()
        # Of the frame that is under way, or its head if that is cut.
        self._rest, self._cut = _PREFACE_BYTES, b""
        self._head_bytes = 0

    def earn(self, sent_bytes: int) -> None:
        """Note that a request was answered, by so many bytes."""
        self._left = min(_MOST, self._left + 1 + sent_bytes / _BYTES_PER_FRAME)

    def take(self, data: bytes) -> None:
        """Look at what has come.

        Raises:
            FloodError: it is too much.
        """
        place, end = 0, len(data)
        while place < end:
            if self._rest:
                step = min(self._rest, end - place)
                self._rest -= step
                place += step
                continue
            step = _FRAME_HEAD_BYTES - len(self._cut)
            head = self._cut + data[place : place + step]
            place += step
            if len(head) < _FRAME_HEAD_BYTES:
                self._cut = head
                return
            self._cut = b""
            self._rest = int.from_bytes(head[:3])
            self._count(head[3], head[4], self._rest)

    def _count(self, kind: int, flags: int, length: int) -> None:
        if kind == _DATA:
            if length < _SHORT_BYTES and not flags & _END_STREAM:
                self._spend(1)
        elif kind in {_HEADERS, _CONTINUATION}:
            self._head_bytes = length if kind == _HEADERS else self._head_bytes + length
            if self._head_bytes > _HEAD_BYTES:
                raise FloodError(f"a head has more than {_HEAD_BYTES} bytes")
            if kind == _CONTINUATION or not flags & _END_HEADERS:
                self._spend(1)
        elif length > _OTHER_BYTES:
            raise FloodError(f"a frame of kind {kind} has more than {_OTHER_BYTES} bytes")
        else:
            self._spend(_COSTS.get(kind, 1))

    def _spend(self, cost: float) -> None:
        now = self._clock()
        self._left = min(_MOST, self._left + (now - self._seen_at) * _PER_SECOND) - cost
        self._seen_at = now
        if self._left < 0:
            raise FloodError("too many frames that are no request")
