"""Reporter that logs a problem with an object only once, even if each event for the object indicates the problem."""

from __future__ import annotations

import logging

# The number of objects of a kind in the largest clusters. The least recently reported key is dropped first.
_KEYS = 200_000


class OnceReporter:
    """Reporter that logs only one message for each key, such as the UID of an object, and counts the keys.

    Args:
        log: the logger.
        level: the level of the messages.
    """

    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        # The keys, ordered by the time of the last report. Hashes are stored instead of keys, because keys may be long.
        self._keys: dict[int, bool] = {}
        self.count = 0

    def report(self, key: str, message: str, *, error: BaseException | None = None) -> None:
        """Log `message`, with the traceback of an error, unless this key has already been reported."""
        reported = self._keys.pop(hash(key), False)
        self._keys[hash(key)] = True
        if reported:
            return
        if len(self._keys) > _KEYS:
            del self._keys[next(iter(self._keys))]
        self.count += 1
        self._log.log(self._level, "%s", message, exc_info=error)
