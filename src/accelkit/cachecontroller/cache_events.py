"""Events that report changes to a cache's conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from accelkit.gkm.conditions import UNDER_WAY, Condition, ConditionType, find_condition
from accelkit.gkm.names import API
from accelkit.gkm.objects import CACHE_KIND, CLUSTER_CACHE_KIND, Cache
from accelkit.kube.events import Events, ObjectReference

_REPORTED_TYPES: Final = (ConditionType.RESOLVED, ConditionType.VERIFIED, ConditionType.READY, ConditionType.DEGRADED)


class CacheEvents:
    """Event writer, which writes an Event for each change to a condition's status or reason.

    Args:
        events: event recorder.
    """

    def __init__(self, events: Events) -> None:
        self._events = events

    async def record_changes(self, cache: Cache, former: Sequence[Condition], present: Sequence[Condition]) -> None:
        """Write Events that report the changes. If an Event cannot be written, log the failure and discard it."""
        involved = _refer(cache)
        reported = set()
        for type_ in _REPORTED_TYPES:
            before, after = find_condition(former, type_), find_condition(present, type_)
            if after is None or after.reason in UNDER_WAY or after.reason in reported:
                continue
            if before is not None and (before.status, before.reason) == (after.status, after.reason):
                continue
            good = (after.status == "True") is (type_ is not ConditionType.DEGRADED)
            if type_ is ConditionType.DEGRADED and good:
                continue
            reported.add(after.reason)
            await self._events.record(involved, after.reason, after.message, warning=not good)


def _refer(cache: Cache) -> ObjectReference:
    kind = CLUSTER_CACHE_KIND if cache.of_cluster else CACHE_KIND
    meta = cache.metadata
    return ObjectReference(kind, meta.name, meta.namespace, meta.uid, api_version=API)
