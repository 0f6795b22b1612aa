"""Logger that logs a problem with an object only once, even if each event of the object repeats the problem."""

from __future__ import annotations

import logging

# The largest clusters have at most this many objects of a kind. The least recently reported key is dropped first.
_KEYS = 200_000


class OnceReporter:
    """Reporter that logs one message for each key, such as the UID of an object, and counts the keys.

    Args:
        log: the logger.
        level: the level of the messages.
    """

    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        # Ordered by the time of the last report. Hashes are stored instead of keys, because a key may be long.
        self._keys: dict[int, bool] = {}
        self.count = 0

    def report(self, key: str, message: str, *, error: BaseException | None = None) -> None:
        """Log `message`, with the traceback of an error, unless this key was reported before."""
        reported = self._keys.pop(hash(key), False)
        self._keys[hash(key)] = True
        if reported:
            return
        if len(self._keys) > _KEYS:
            del self._keys[next(iter(self._keys))]
        self.count += 1
        self._log.log(self._level, "%s", message, exc_info=error)
