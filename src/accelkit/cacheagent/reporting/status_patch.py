"""Merge patch for a report, which contains the differences from the report on the API server, with timestamps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from accelkit.gkm.conditions import merge_conditions
from accelkit.gkm.objects import NodeCacheStatus, NodeStatus


def build_status_patch(known: NodeStatus | None, desired: NodeStatus, now: str) -> dict[str, Any] | None:
    """Return a merge patch for the status; None if there are no changes.

    Args:
        known: report on the API server; None if it does not exist.
        desired: desired report without timestamps.
        now: current time in RFC 3339 format.
    """
    before = known or NodeStatus()
    caches = {
        name: {
            digest: _date(before.caches.get(name, {}).get(digest), entry, now) for digest, entry in by_digest.items()
        }
        for name, by_digest in desired.caches.items()
    }
    dated = msgspec.structs.replace(desired, caches=caches, last_updated=before.last_updated)
    if known is not None and dated == known:
        return None
    dated.last_updated = now
    patch = _diff(msgspec.to_builtins(before), msgspec.to_builtins(dated))
    return {"status": patch} if isinstance(patch, dict) and patch else None


def _date(former: NodeCacheStatus | None, present: NodeCacheStatus, now: str) -> NodeCacheStatus:
    conditions = merge_conditions(former.conditions if former is not None else (), present.conditions, now=now)
    dated = msgspec.structs.replace(
        present, conditions=conditions, last_updated=former.last_updated if former is not None else now
    )
    return dated if dated == former else msgspec.structs.replace(dated, last_updated=now)


def _diff(before: Any, after: Any) -> Any:
    """Return the merge patch that converts `before` to `after`. Lists are replaced as a whole."""
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return after
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        if key not in before:
            patch[key] = value
        elif value != before[key]:
            patch[key] = _diff(before[key], value)
    return patch
