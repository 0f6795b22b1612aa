"""Pods whose assignment could not be written. The writes are retried later without blocking other pods."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from accelkit.errors import ApiError

_FIRST_SECONDS: Final = 15.0
_LONGEST_SECONDS: Final = 300.0
# The delay if the API server, not the pod, is the cause.
_PASSING_SECONDS: Final = 5.0
_PASSING: Final = frozenset({"unanswered", "server_error", "throttled"})
# The values of a metric label. Their number is limited, because an API server may respond with any status.
_REASONS: Final[Mapping[int, str]] = {
    HTTPStatus.BAD_REQUEST: "invalid",
    HTTPStatus.FORBIDDEN: "forbidden",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "too_large",
    HTTPStatus.UNPROCESSABLE_ENTITY: "invalid",
    HTTPStatus.TOO_MANY_REQUESTS: "throttled",
}


def name_reason(error: ApiError) -> str:
    """Return the reason for a failed write, from a fixed set of values."""
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
    """Pods that are skipped for a period after a failed write. The period doubles with each failure for the pod.

    If the API server, not the pod, is the cause, the period is short and constant. A change to the pod does not shorten
    the period, because the pod's owner could change the pod frequently.

    Args:
        clock: a monotonic clock in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._by_uid: dict[str, _Refusal] = {}

    def keep(self, uids: Collection[str]) -> None:
        """Remove all pods except for the pods with these UIDs."""
        self._by_uid = {uid: refusal for uid, refusal in self._by_uid.items() if uid in uids}

    def list_waiting(self) -> frozenset[str]:
        """Return the UIDs of the pods that are currently skipped."""
        now = self._clock()
        return frozenset(uid for uid, refusal in self._by_uid.items() if now < refusal.until)

    def list_refused(self) -> frozenset[str]:
        """Return the UIDs of the skipped pods whose writes the API server rejects because of the pod itself."""
        return frozenset(uid for uid in self.list_waiting() if not self._by_uid[uid].passing)

    def note(self, uid: str, reason: str) -> bool:
        """Skip a pod temporarily; return whether this is its first failure for this reason."""
        refusal = self._by_uid.setdefault(uid, _Refusal())
        refusal.passing = reason in _PASSING
        if not refusal.passing:
            refusal.seconds = min(_LONGEST_SECONDS, 2 * refusal.seconds or _FIRST_SECONDS)
        refusal.until = self._clock() + (_PASSING_SECONDS if refusal.passing else refusal.seconds)
        known = reason in refusal.reported
        refusal.reported.add(reason)
        return not known

    def clear(self, uid: str) -> None:
        """Remove a pod after a successful write."""
        self._by_uid.pop(uid, None)
