"""Events about waiting groups and withdrawn reservations."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from accelkit.extender.groups.membership import GroupKey
from accelkit.kube.events import Events, ObjectReference
from accelkit.logs import Facts
from accelkit.model.pod import PodRef

log = logging.getLogger(__name__)

# Minimum duration of a reason before it is reported.
_LASTING_SECONDS: Final = 2.0
# Maximum number of pods per group that get an Event.
_MOST_PODS: Final = 8
# Limit on concurrent writes and on queued Events, because any user who can create pods can create groups.
_AT_ONCE: Final = 16
_MOST_DUE: Final = 1000
WAITING: Final = "PodGroupWaiting"
RELEASED: Final = "PodGroupReleased"


class GroupEvents:
    """Event writer for pod groups.

    Args:
        events: the event recorder.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        # For each group: its reason, the time of the first occurrence, and whether the reason was reported.
        self._reasons: dict[GroupKey, tuple[str, float, bool]] = {}
        self._due: deque[tuple[PodRef, str, str]] = deque(maxlen=_MOST_DUE)

    def find_reason(self, key: GroupKey) -> str:
        """Return the reason why a group waits; empty if it does not wait."""
        return self._reasons.get(key, ("", 0.0, False))[0]

    def note_released(self, refs: Sequence[PodRef], reason: str) -> None:
        """Record that the cards of pods were released; the next call of `update` writes the Events."""
        for ref in refs:
            log.info(Facts("released", pod=str(ref), uid=ref.uid, reason=reason))
        self._due += [(ref, RELEASED, reason) for ref in refs[:_MOST_PODS]]

    async def update(self, reasons: Mapping[GroupKey, tuple[str, PodRef]], now: float) -> None:
        """Set the current reasons of all groups. Each new reason that persists is reported once, on one pod."""
        for key in self._reasons.keys() - reasons.keys():
            del self._reasons[key]
        for key, (reason, ref) in reasons.items():
            known, since, reported = self._reasons.get(key, ("", now, False))
            if known != reason:
                since, reported = now, False
            if lasts := not reported and now - since >= _LASTING_SECONDS:
                log.info(Facts("group waits", group=str(key), pod=str(ref), uid=ref.uid, reason=reason))
                self._due.append((ref, WAITING, reason))
            self._reasons[key] = reason, since, reported or lasts
        turn = [self._due.popleft() for _ in range(min(_AT_ONCE, len(self._due)))]
        await asyncio.gather(*(self._record(*each) for each in turn))

    async def _record(self, ref: PodRef, reason: str, message: str) -> None:
        about = ObjectReference("Pod", ref.name, ref.namespace, ref.uid)
        await self._events.record(about, reason, message, warning=True)
