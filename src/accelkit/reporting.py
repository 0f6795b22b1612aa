"""Tells of what is wrong with one object, which is shown again in every event, once."""

from __future__ import annotations

import logging

# All objects of a kind that the largest clusters have; what was not shown for the longest time is forgotten first.
_KEYS = 200_000


class OnceReporter:
    """Logs once for each key, such as the UID of an object that comes again in every event, and counts the keys.

    Args:
        log: the logger.
        level: the level to log at.
    """

    def __init__(self, log: logging.Logger, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        # In the order in which they were shown; as hashes, since a key may be long.
        self._keys: dict[int, bool] = {}
        self.count = 0

    def report(self, key: str, message: str, *, error: BaseException | None = None) -> None:
        """Log `message`, with the traceback of an error, unless that was done for this key."""
        known = self._keys.pop(hash(key), False)
        self._keys[hash(key)] = True
        if known:
            return
        if len(self._keys) > _KEYS:
            del self._keys[next(iter(self._keys))]
        self.count += 1
        self._log.log(self._level, "%s", message, exc_info=error)
