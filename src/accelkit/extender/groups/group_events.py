"""Tells people by Events what groups wait for, and what was withdrawn from them."""

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

# What is over sooner is told to nobody.
_LASTING_SECONDS: Final = 2.0
# Of one group, so many pods get an Event of their own.
_MOST_PODS: Final = 8
# Whoever may create pods may create groups: so many Events are written at once, and of so many that wait the oldest go.
_AT_ONCE: Final = 16
_MOST_DUE: Final = 1000
WAITING: Final = "PodGroupWaiting"
RELEASED: Final = "PodGroupReleased"


class GroupEvents:
    """Writes Events of groups.

    Args:
        events: where they are written.
    """

    def __init__(self, events: Events) -> None:
        self._events = events
        # Since when each reason holds, and whether it was told.
        self._reasons: dict[GroupKey, tuple[str, float, bool]] = {}
        self._due: deque[tuple[PodRef, str, str]] = deque(maxlen=_MOST_DUE)

    def find_reason(self, key: GroupKey) -> str:
        """Return what a group waits for, empty where it does not."""
        return self._reasons.get(key, ("", 0.0, False))[0]

    def note_released(self, refs: Sequence[PodRef], reason: str) -> None:
        """Note that the cards of pods were released, which is told with the rest."""
        for ref in refs:
            log.info(Facts("released", pod=str(ref), uid=ref.uid, reason=reason))
        self._due += [(ref, RELEASED, reason) for ref in refs[:_MOST_PODS]]

    async def tell(self, reasons: Mapping[GroupKey, tuple[str, PodRef]], now: float) -> None:
        """Take over what all groups wait for now, and tell what is new and lasts; each reason to one pod, once."""
        for key in self._reasons.keys() - reasons.keys():
            del self._reasons[key]
        for key, (reason, ref) in reasons.items():
            known, since, told = self._reasons.get(key, ("", now, False))
            if known != reason:
                since, told = now, False
            if lasts := not told and now - since >= _LASTING_SECONDS:
                log.info(Facts("group waits", group=str(key), pod=str(ref), uid=ref.uid, reason=reason))
                self._due.append((ref, WAITING, reason))
            self._reasons[key] = reason, since, told or lasts
        turn = [self._due.popleft() for _ in range(min(_AT_ONCE, len(self._due)))]
        await asyncio.gather(*(self._record(*each) for each in turn))

    async def _record(self, ref: PodRef, reason: str, message: str) -> None:
        about = ObjectReference("Pod", ref.name, ref.namespace, ref.uid)
        await self._events.record(about, reason, message, warning=True)
