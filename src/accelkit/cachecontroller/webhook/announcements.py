"""Claims of caches that are about to be there: kept with the webhook's configuration, where both replicas find them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

import msgspec

from accelkit.cachecontroller.webhook.matching import Claim

ANNOUNCED_ANNOTATION: Final = "cache.accelkit.io/announced"
# A cache is stored, and seen by its watchers, long before; clocks of nodes may differ by a minute.
_KEPT_SECONDS: Final = 120
# Whoever makes caches by the thousand, or has them refused, finds room for no more of these.
_MOST: Final = 1000

_decoder = msgspec.json.Decoder(dict[str, int])


class Announcements:
    """When each claim was announced.

    Args:
        times: seconds since the epoch, by `NAMESPACE/NAME`.
        now: the same, of now; None for the clock's.
    """

    def __init__(self, times: dict[str, int], now: float | None = None) -> None:
        self._now = int(time.time() if now is None else now)
        self._times = {key: each for key, each in times.items() if abs(self._now - each) < _KEPT_SECONDS}

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
        pairs = (key.partition("/") for key in self._times)
        return frozenset((namespace, name) for namespace, _, name in pairs)

    def note(self, claims: Iterable[Claim]) -> None:
        """Take in claims that are announced now."""
        for namespace, name in sorted(claims):
            if len(self._times) < _MOST:
                self._times[f"{namespace}/{name}"] = self._now

    def forget(self, claims: Iterable[Claim]) -> None:
        """Leave out claims of caches that are there."""
        for namespace, name in claims:
            self._times.pop(f"{namespace}/{name}", None)

    def write(self) -> str:
        """Return the annotation."""
        return msgspec.json.encode(self._times, order="sorted").decode()
