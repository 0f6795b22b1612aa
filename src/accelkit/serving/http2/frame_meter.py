"""Meter that limits frames other than requests and bodies from a client. Frames are counted before they are parsed.

Such a frame is much more expensive for this process than for the sender, because it causes an acknowledgement, a
lookup, or the start and reset of a stream.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

# The maximum credit of a connection, and the credit that is restored per second.
_MOST: Final = 2000.0
_PER_SECOND: Final = 1.0
# These frames are more expensive, because the work for a reset stream is wasted, and each setting is evaluated.
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _CONTINUATION = 0, 1, 3, 4, 9
_COSTS: Final = {_RST_STREAM: 10.0, _SETTINGS: 10.0}
# A client acknowledges received data with at most two frames per 4 KiB.
_BYTES_PER_FRAME: Final = 2048
# Bodies usually arrive in long frames. A short data frame is as expensive as any other frame.
_SHORT_BYTES: Final = 256
# Maximum encoded size of the headers of a request.
_HEAD_BYTES: Final = 32 * 1024
# Maximum size of a frame that contains neither headers nor a part of a body.
_OTHER_BYTES: Final = 4096

_PREFACE_BYTES: Final = 24
_FRAME_HEAD_BYTES: Final = 9
_END_STREAM, _END_HEADERS = 0x1, 0x4


class FloodError(ProtocolError):
    """A client sent more frames than any legitimate client needs."""

    error_code = ErrorCodes.ENHANCE_YOUR_CALM


class FrameMeter:
    """The credit of one connection for additional frames.

    Args:
        clock: a function that returns a monotonic time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left, self._restored_at = _MOST, clock()
        # Remaining bytes of the current frame, and the received part of an incomplete frame header.
        self._rest, self._cut = _PREFACE_BYTES, b""
        self._head_bytes = 0
        # Whether the current frame contains headers of a request.
        self._in_head = False

    def earn(self, sent_bytes: int) -> None:
        """Restore credit after a response of this size, in bytes, was sent."""
        self._left = min(_MOST, self._left + 1 + sent_bytes / _BYTES_PER_FRAME)

    def take(self, data: bytes, place: int = 0) -> int:
        """Count the frames in received data up to the end of the first request headers, and return this position.

        Args:
            data: the received data.
            place: the position of the first byte to process.

        Raises:
            FloodError: the client exceeded a limit.
        """
        end = len(data)
        while place < end:
            if self._rest:
                step = min(self._rest, end - place)
                self._rest -= step
                place += step
                if self._in_head and not self._rest:
                    self._in_head = False
                    return place
                continue
            step = _FRAME_HEAD_BYTES - len(self._cut)
            head = self._cut + data[place : place + step]
            place += step
            if len(head) < _FRAME_HEAD_BYTES:
                self._cut = head
                return place
            self._cut = b""
            self._rest = int.from_bytes(head[:3])
            self._count(head[3], head[4], self._rest)
            self._in_head = head[3] in {_HEADERS, _CONTINUATION}
        return place

    def _count(self, kind: int, flags: int, length: int) -> None:
        if kind == _DATA:
            if length < _SHORT_BYTES and not flags & _END_STREAM:
                self._spend(1)
        elif kind in {_HEADERS, _CONTINUATION}:
            self._head_bytes = length if kind == _HEADERS else self._head_bytes + length
            if self._head_bytes > _HEAD_BYTES:
                raise FloodError(f"the headers of a request exceed {_HEAD_BYTES} bytes")
            if kind == _CONTINUATION or not flags & _END_HEADERS:
                self._spend(1)
        elif length > _OTHER_BYTES:
            raise FloodError(f"a frame of kind {kind} has more than {_OTHER_BYTES} bytes")
        else:
            self._spend(_COSTS.get(kind, 1))

    def _spend(self, cost: float) -> None:
        now = self._clock()
        self._left = min(_MOST, self._left + (now - self._restored_at) * _PER_SECOND) - cost
        self._restored_at = now
        if self._left < 0:
            raise FloodError("too many frames that are not part of a request")
