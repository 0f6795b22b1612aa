"""Remembers the pods whose assignment could not be written, so that one of them neither stops nor slows the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from accelkit.errors import ApiError

_FIRST_SECONDS: Final = 15.0
_LONGEST_SECONDS: Final = 300.0
# The API server is the cause, not the pod.
_PASSING_SECONDS: Final = 5.0
_PASSING: Final = frozenset({"unanswered", "server_error", "throttled"})
# The words of a metric: an API server may answer anything.
_REASONS: Final[Mapping[int, str]] = {
    HTTPStatus.BAD_REQUEST: "invalid",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "too_large",
    HTTPStatus.UNPROCESSABLE_ENTITY: "invalid",
    HTTPStatus.TOO_MANY_REQUESTS: "throttled",
}


def name_reason(error: ApiError) -> str:
    """Return one of a few words for why the API server did not write."""
    if error.status == 0:
        return "unanswered"
    return "server_error" if error.unanswered else _REASONS.get(error.status, "other")


@dataclass(slots=True)
class _Refusal:
    seconds: float = 0.0
    until: float = 0.0
    passing: bool = False
    told: set[str] = field(default_factory=set)


class Refusals:
    """Pods that are left alone for a while after a refused write, each for twice as long as the time before.

    Where the API server is the cause, and not the pod, the wait is short and does not grow.
    No change of a pod shortens that: its owner may change it as often as he likes.

    Args:
        clock: seconds, never backwards.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_uid: dict[str, _Refusal] = {}

    def keep(self, uids: Collection[str]) -> None:
        """Forget all pods but these."""
        self._by_uid = {uid: refusal for uid, refusal in self._by_uid.items() if uid in uids}

    def list_waiting(self) -> frozenset[str]:
        """Return the pods that are left alone now."""
        now = self._clock()
        return frozenset(uid for uid, refusal in self._by_uid.items() if now < refusal.until)

    def list_refused(self) -> frozenset[str]:
        """Return those of them that the API server refuses, and not those of which the API server is the cause."""
        return frozenset(uid for uid in self.list_waiting() if not self._by_uid[uid].passing)

    def note(self, uid: str, reason: str) -> bool:
        """Leave a pod alone for a while; return whether it was not refused for this reason before."""
        refusal = self._by_uid.setdefault(uid, _Refusal())
        refusal.passing = reason in _PASSING
        if not refusal.passing:
            refusal.seconds = min(_LONGEST_SECONDS, 2 * refusal.seconds or _FIRST_SECONDS)
        refusal.until = self._clock() + (_PASSING_SECONDS if refusal.passing else refusal.seconds)
        known = reason in refusal.told
        refusal.told.add(reason)
        return not known

    def clear(self, uid: str) -> None:
        """Note that a pod was written."""
        self._by_uid.pop(uid, None)
