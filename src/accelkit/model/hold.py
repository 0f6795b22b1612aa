"""The hold on cards for a pod, which `accelkit defrag` writes to the pod's status before it evicts other pods.

The hold is stored in a condition of the pod. Users who may edit pods cannot write the condition, because `pods/status`
requires a separate permission. The hold exists only as long as the pod, and each replica of the extender reads it from
the watch of pods.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from accelkit.model.keys import HOLD_CONDITION
from accelkit.model.pod import PodCondition

# A longer hold is invalid, so that a mistake cannot block a card for days.
MOST_HOLD_SECONDS: Final = 3600
_MOST_BYTES: Final = 16 << 10


class Hold(msgspec.Struct, frozen=True):
    """Cards that are held for a pod.

    Attributes:
        node: the node with the cards.
        until: the time at which the hold expires, with a time zone.
        evicted: the UIDs of the pods that are evicted for the hold.
    """

    node: str
    until: datetime
    evicted: tuple[str, ...] = ()

    def lasts(self, now: float) -> bool:
        """Return whether the hold is valid at this time, in Unix seconds."""
        return self.until.tzinfo is not None and 0 < self.until.timestamp() - now <= MOST_HOLD_SECONDS

    def build_condition(self) -> dict[str, str]:
        """Return the condition that contains the hold."""
        message = msgspec.json.encode(self).decode()
        return {"type": HOLD_CONDITION, "status": "True", "reason": "Defragmentation", "message": message}


_hold = msgspec.json.Decoder(Hold)


def find_hold(conditions: Iterable[PodCondition]) -> Hold | None:
    """Return the hold from a pod's conditions; None if there is none, or if it is not valid JSON."""
    for each in conditions:
        if each.type == HOLD_CONDITION and each.status == "True" and len(each.message or "") <= _MOST_BYTES:
            try:
                return _hold.decode(each.message or "")
            except (msgspec.MsgspecError, RecursionError):
                return None
    return None
