"""Pods whose assignment could not be written, which are retried later and do not block or delay other pods."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from accelkit.errors import ApiError

_FIRST_SECONDS: Final = 15.0
_LONGEST_SECONDS: Final = 300.0
# The delay if the API server is the cause rather than the pod.
_PASSING_SECONDS: Final = 5.0
_PASSING: Final = frozenset({"unanswered", "server_error", "throttled"})
# The values of a metric's label, which are limited because an API server may respond with any status.
_REASONS: Final[Mapping[int, str]] = {
    HTTPStatus.BAD_REQUEST: "invalid",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "too_large",
    HTTPStatus.UNPROCESSABLE_ENTITY: "invalid",
    HTTPStatus.TOO_MANY_REQUESTS: "throttled",
}


def name_reason(error: ApiError) -> str:
    """Return the reason for a failed write, as one of a few words."""
    if error.status == 0:
        return "unanswered"
    return "server_error" if error.unanswered else _REASONS.get(error.status, "other")


@dataclass(slots=True)
class _Refusal:
    seconds: float = 0.0
    until: float = 0.0
    passing: bool = False
    reported: set[str] = field(default_factory=set)


class Refusals:
    """Pods that are left out for some time after a refused write. The time doubles with each refusal of a pod.

    If the API server is the cause rather than the pod, the time is short and does not grow. A change to the pod does
    not shorten the time, because its owner could change it often.

    Args:
        clock: returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_uid: dict[str, _Refusal] = {}

    def keep(self, uids: Collection[str]) -> None:
        """Forget all pods except these."""
        self._by_uid = {uid: refusal for uid, refusal in self._by_uid.items() if uid in uids}

    def list_waiting(self) -> frozenset[str]:
        """Return the UIDs of the pods that are left out now."""
        now = self._clock()
        return frozenset(uid for uid, refusal in self._by_uid.items() if now < refusal.until)

    def list_refused(self) -> frozenset[str]:
        """Return the UIDs of the waiting pods whose writes the API server refuses because of the pod itself."""
        return frozenset(uid for uid in self.list_waiting() if not self._by_uid[uid].passing)

    def note(self, uid: str, reason: str) -> bool:
        """Leave out a pod for some time; return whether this is its first refusal for this reason."""
        refusal = self._by_uid.setdefault(uid, _Refusal())
        refusal.passing = reason in _PASSING
        if not refusal.passing:
            refusal.seconds = min(_LONGEST_SECONDS, 2 * refusal.seconds or _FIRST_SECONDS)
        refusal.until = self._clock() + (_PASSING_SECONDS if refusal.passing else refusal.seconds)
        known = reason in refusal.reported
        refusal.reported.add(reason)
        return not known

    def clear(self, uid: str) -> None:
        """Forget the refusals of a pod that was written."""
        self._by_uid.pop(uid, None)
