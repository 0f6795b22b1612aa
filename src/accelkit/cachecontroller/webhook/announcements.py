"""Claims of caches that are about to be there: kept with the webhook's configuration, where both replicas find them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from accelkit.cachecontroller.webhook.matching import Claim, is_name

ANNOUNCED_ANNOTATION: Final = "cache.accelkit.io/announced"
# A cache is stored, and seen by its watchers, long before; clocks of nodes may differ by a minute.
_KEPT_SECONDS: Final = 120
# What one replica sees already, another may not: it would leave out the claims of a cache that is there.
_SETTLED_SECONDS: Final = 30
# Whoever makes caches by the thousand, or has them refused, finds room for no more of these, and leaves some to others.
_MOST: Final = 1000
_MOST_OF_NAMESPACE: Final = 400
# All annotations of an object have 256 KiB together.
_MOST_BYTES: Final = 200_000
_ENTRY_BYTES: Final = 16

_decoder = msgspec.json.Decoder(dict[str, int])


class Announcements:
    """When each claim was announced.

    Args:
        times: seconds since the epoch, by `NAMESPACE/NAME`.
        now: the same, of now; None for the clock's.
    """

    def __init__(self, times: dict[str, int], now: float | None = None) -> None:
        self._now = int(time.time() if now is None else now)
        self._times = {
            key: each
            for key, each in times.items()
            # They become a part of an expression, and whoever may change the configuration may have changed them.
            if abs(self._now - each) < _KEPT_SECONDS and all(is_name(part) for part in _split(key))
        }

    @classmethod
    def read(cls, text: str, now: float | None = None) -> Announcements:
        """Return what an annotation says; nothing where it is not ours."""
        try:
            return cls(_decoder.decode(text) if text else {}, now)
        except msgspec.MsgspecError:
            return cls({}, now)

    @property
    def claims(self) -> frozenset[Claim]:
        """Namespace and name of each."""
        return frozenset(_split(key) for key in self._times)

    def note(self, claims: Iterable[Claim]) -> None:
        """Take in claims that are announced now, as far as there is room.

        One that is there stays as it is while nobody may forget it: else each of a thousand announcements a second
        would be a write, after which all API servers compile the expression again.
        """
        of_namespaces = Counter(_split(key)[0] for key in self._times)
        size = sum(len(key) + _ENTRY_BYTES for key in self._times)
        for namespace, name in sorted(claims):
            key = f"{namespace}/{name}"
            if key not in self._times:
                of_namespaces[namespace] += 1
                size += len(key) + _ENTRY_BYTES
                full = len(self._times) >= _MOST or size > _MOST_BYTES
                if full or of_namespaces[namespace] > _MOST_OF_NAMESPACE:
                    continue
            if self._now - self._times.get(key, 0) >= _SETTLED_SECONDS:
                self._times[key] = self._now

    def forget(self, claims: Iterable[Claim]) -> None:
        """Leave out claims of caches that are there, once every replica has seen them."""
        for namespace, name in claims:
            key = f"{namespace}/{name}"
            if self._now - self._times.get(key, self._now) >= _SETTLED_SECONDS:
                del self._times[key]

    def write(self) -> str:
        """Return the annotation."""
        return msgspec.json.encode(self._times, order="sorted").decode()


def _split(key: str) -> Claim:
    namespace, _, name = key.partition("/")
    return namespace, name
