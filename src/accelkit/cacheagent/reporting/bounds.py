"""Reduction of reports to a size limit: variables are removed first, then pods, then long messages, then caches.

The API server rejects objects larger than 1.5 MiB. An object also contains the names of all fields that the agent owns.
Therefore, only reports up to half of this size are safe.
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
# Maximum number of pods per entry, which is more than a node usually runs.
_MAX_PODS: Final = 250
# The controller requires at least one pod to detect that a digest is in use.
_LEAST_PODS: Final = 1
# Size of the timestamps that are added when the report is written.
_TIMES_BYTES: Final = 64
# Size of a non-empty list of pods without its items.
_LIST_BYTES: Final = 12
_MESSAGES: Final = (200, 40, 0)


@dataclass(frozen=True)
class Bounded:
    """A report that does not exceed the size limit.

    Attributes:
        status: content of the report.
        left_out: number of removed caches.
    """

    status: NodeStatus
    left_out: int = 0


def bound_report(status: NodeStatus, most_bytes: int = MAX_BYTES) -> Bounded:
    """Return a report that is reduced to the size limit.

    Variables are removed first, because a later report can contain them. Next, each cache is limited to the same number
    of pods, and a message contains the number of removed pods. Next, messages are truncated. Finally, caches are
    removed in reverse order of their names. The counts always include all caches and pods.
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
    """Return the size of a report in bytes, including the timestamps that are added later."""
    times = sum(1 + len(entry.conditions) for entry in _list_entries(status))
    return len(msgspec.json.encode(status)) + _TIMES_BYTES * times


def _list_entries(status: NodeStatus) -> Iterator[NodeCacheStatus]:
    for by_digest in status.caches.values():
        yield from by_digest.values()


def _find_most_pods(status: NodeStatus, most_bytes: int) -> int:
    """Return the maximum number of pods per entry with which the report does not exceed the limit."""
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
    """Return the cumulative sizes of the pods, beginning with the size of an empty list."""
    sizes = [0]
    for pod in pods[:_MAX_PODS]:
        sizes.append((sizes[-1] or _LIST_BYTES) + len(msgspec.json.encode(pod)) + 1)
    return sizes


def _leave_out_pods(status: NodeStatus, most: int) -> NodeStatus:
    def cut(entry: NodeCacheStatus) -> NodeCacheStatus:
        left_out = len(entry.pods) - most
        if left_out <= 0:
            return entry
        # Entries of previous digests have a single condition.
        kinds = {each.type for each in entry.conditions}
        type_ = ConditionType.READY if ConditionType.READY in kinds else ConditionType.OUTDATED
        text = f"pods that are not listed: {left_out}"
        conditions = [_append(each, text) if each.type == type_ else each for each in entry.conditions]
        return msgspec.structs.replace(entry, pods=entry.pods[:most], conditions=conditions)

    return _map_entries(status, cut)


def _leave_out_variables(status: NodeStatus, most_bytes: int) -> NodeStatus:
    """Remove the variables of as many caches as necessary. Later reports contain these variables."""
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
        # The measured size includes the field name `caches`, which the report contains only once.
        rest -= measure(NodeStatus(caches={name: by_digest})) - empty
        if rest < 0:
            break
        caches[name] = by_digest
    return Bounded(msgspec.structs.replace(status, caches=caches), len(status.caches) - len(caches))
