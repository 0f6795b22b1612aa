"""Keeps a report small enough to be stored, whatever a namespace has: recorded variables go first, and caches last.

The API server refuses an object of more than 1.5 MiB, and beside what we write it keeps the name of each field that we
own. So a report of half that always finds room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from accelkit.gkm.conditions import MAX_MESSAGE, Condition, ConditionType
from accelkit.gkm.objects import CachePod, NodeCacheStatus, NodeStatus
from accelkit.texts import shorten

MAX_BYTES: Final = 700_000
# A node has some hundred pods.
_MAX_PODS: Final = 250
# By one, the controller knows that a digest is in use.
_LEAST_PODS: Final = 1
# Of the times that are added when it is written.
_TIMES_BYTES: Final = 64
# Of a list of pods that is not empty.
_LIST_BYTES: Final = 12
_MESSAGES: Final = (200, 40, 0)


@dataclass(frozen=True)
class Bounded:
    """A report that can be stored, and what it does not say.

    Attributes:
        left_out: how many caches.
    """

    status: NodeStatus
    left_out: int = 0


def bound_report(status: NodeStatus, most_bytes: int = MAX_BYTES) -> Bounded:
    """Return as much of a report as can be stored.

    Variables are left out first, which are told once the others' are known; then pods, of each cache alike, and its
    message says how many; then messages are cut, then caches are
    left out, those that come last by name. Counts are of all.
    """
    longest = max((len(entry.pods) for entry in _list_entries(status)), default=0)
    if longest <= _MAX_PODS and measure(status) <= most_bytes:
        return Bounded(status)
    status = _leave_out_variables(status, most_bytes)
    bounded = _leave_out_pods(status, _find_most_pods(status, most_bytes))
    for length in _MESSAGES:
        if measure(bounded) > most_bytes:
            bounded = _cut_messages(bounded, length)
    return _leave_out_caches(bounded, most_bytes)


def measure(status: NodeStatus) -> int:
    """Return what a report takes, with the times that it will have, in bytes."""
    times = sum(1 + len(entry.conditions) for entry in _list_entries(status))
    return len(msgspec.json.encode(status)) + _TIMES_BYTES * times


def _list_entries(status: NodeStatus) -> Iterator[NodeCacheStatus]:
    for by_digest in status.caches.values():
        yield from by_digest.values()


def _find_most_pods(status: NodeStatus, most_bytes: int) -> int:
    """Return how many pods of each entry fit."""
    lists = [_measure_pods(entry.pods) for entry in _list_entries(status)]
    rest = most_bytes - measure(_leave_out_pods(status, 0))
    longest = max((len(each) for each in lists), default=1) - 1
    low, high = _LEAST_PODS, max(_LEAST_PODS, min(_MAX_PODS, longest))
    while low < high:
        middle = (low + high + 1) // 2
        if sum(sizes[min(middle, len(sizes) - 1)] for sizes in lists) <= rest:
            low = middle
        else:
            high = middle - 1
    return low


def _measure_pods(pods: list[CachePod]) -> list[int]:
    """Return what so many of them take: none, the first, the first two, and so on."""
    sizes = [0]
    for pod in pods[:_MAX_PODS]:
        sizes.append((sizes[-1] or _LIST_BYTES) + len(msgspec.json.encode(pod)) + 1)
    return sizes


def _leave_out_pods(status: NodeStatus, most: int) -> NodeStatus:
    def cut(entry: NodeCacheStatus) -> NodeCacheStatus:
        left_out = len(entry.pods) - most
        if left_out <= 0:
            return entry
        # A former digest has but one condition.
        kinds = {each.type for each in entry.conditions}
        told = ConditionType.READY if ConditionType.READY in kinds else ConditionType.OUTDATED
        text = f"{left_out} of its pods are not listed"
        conditions = [_append(each, text) if each.type == told else each for each in entry.conditions]
        return msgspec.structs.replace(entry, pods=entry.pods[:most], conditions=conditions)

    return _map_entries(status, cut)


def _leave_out_variables(status: NodeStatus, most_bytes: int) -> NodeStatus:
    """Leave out as many caches' variables as it takes: a cache's status will have the others soon, and these then."""
    over = measure(status) - most_bytes

    def cut(entry: NodeCacheStatus) -> NodeCacheStatus:
        nonlocal over
        if over <= 0 or not entry.recorded_environment:
            return entry
        over -= len(msgspec.json.encode(entry.recorded_environment))
        return msgspec.structs.replace(entry, recorded_environment={})

    return _map_entries(status, cut)


def _append(condition: Condition, text: str) -> Condition:
    end = f"; {text}" if condition.message else text
    return msgspec.structs.replace(condition, message=shorten(condition.message, MAX_MESSAGE - len(end)) + end)


def _cut_messages(status: NodeStatus, length: int) -> NodeStatus:
    def cut(entry: NodeCacheStatus) -> NodeCacheStatus:
        conditions = [
            msgspec.structs.replace(each, message=shorten(each.message, length) if length else "")
            for each in entry.conditions
        ]
        return msgspec.structs.replace(entry, conditions=conditions)

    return _map_entries(status, cut)


def _map_entries(status: NodeStatus, change: Callable[[NodeCacheStatus], NodeCacheStatus]) -> NodeStatus:
    caches = {
        name: {digest: change(entry) for digest, entry in by_digest.items()}
        for name, by_digest in status.caches.items()
    }
    return msgspec.structs.replace(status, caches=caches)


def _leave_out_caches(status: NodeStatus, most_bytes: int) -> Bounded:
    if measure(status) <= most_bytes:
        return Bounded(status)
    empty = measure(NodeStatus())
    rest = most_bytes - measure(msgspec.structs.replace(status, caches={}))
    caches: dict[str, dict[str, NodeCacheStatus]] = {}
    for name, by_digest in sorted(status.caches.items()):
        # With the field's own name, which is one for all.
        rest -= measure(NodeStatus(caches={name: by_digest})) - empty
        if rest < 0:
            break
        caches[name] = by_digest
    return Bounded(msgspec.structs.replace(status, caches=caches), len(status.caches) - len(caches))
