"""Finds who owns the cards of nodes, from objects that were read: a pure function, with what it was told by.

An owner of one vendor's cards says nothing of another vendor's. What accelkit itself offers is no sign of an owner, and
neither is what the extender counts in the name of a dialect. Marks of an owner that is gone, and resources of which a
kubelet offers none, are left over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Final

import msgspec

from accelkit.enablement.ownership.objects import DaemonSet, ResourceSlice
from accelkit.enablement.ownership.owners import (
    Hold,
    Mark,
    Owner,
    build_unknown_plugin,
    find_vendor_of,
    load_owners,
)
from accelkit.extender.groups.node_rules import NodeFacts, encode_rules
from accelkit.extender.groups.objects import GroupNode
from accelkit.model.pod import Node
from accelkit.texts import shorten
from accelkit.vendors.advertised import read_advertised

# Of each kind of evidence; more say no more.
_MOST: Final = 4
_MOST_CHARACTERS: Final = 200


class OwnerState(StrEnum):
    """Whether an owner is there."""

    OWNER = "owner"
    LEFT_OVER = "left-over"


class NodeOwner(msgspec.Struct, frozen=True):
    """Somebody who owns cards of a node, or whose traces are on it.

    Attributes:
        name: of the owner, for programs.
        title: for people.
        vendor: whose cards; empty where nobody knows, so that it may be any vendor's.
        holds: the driver, or the cards.
        drives: whether it loads the driver, whatever else it holds.
        sure: whether that it is there is told by what tenants cannot write.
        state: whether it is there.
        gives: what of the cards it offers to pods now, as `nvidia.com/gpu: 8`; empty for nothing.
        evidence: what was seen, as parts of a sentence.
        release: how a node is taken from it.
    """

    name: str
    title: str
    vendor: str
    holds: Hold
    state: OwnerState
    gives: tuple[str, ...]
    evidence: tuple[str, ...]
    release: str
    drives: bool = False
    sure: bool = True


class Cluster(msgspec.Struct, frozen=True):
    """What was read of a cluster.

    Attributes:
        nodes: all of them.
        slices: all ResourceSlices.
        daemon_sets: all DaemonSets; None where they could not be read, and then no mark is left over.
        trusted_namespaces: those whose DaemonSets stand for themselves.
    """

    nodes: Sequence[Node]
    slices: Sequence[ResourceSlice] = ()
    daemon_sets: Sequence[DaemonSet] | None = ()
    trusted_namespaces: Collection[str] = ()


def find_owners(
    cluster: Cluster, *, counted: Collection[str] = (), table: Sequence[Owner] | None = None
) -> dict[str, tuple[NodeOwner, ...]]:
    """Return the owners of each node's cards, by node, and those whose traces are left.

    Args:
        cluster: what was read.
        counted: extended resources of which the extender counts what pods hold, so that who gives them is no rival.
        table: of owners; that of accelkit by default.

    Returns:
        For every node, its owners, sorted; empty where it has none.
    """
    owners = load_owners() if table is None else table
    devices = _count_devices(cluster.slices)
    placed = _place_daemon_sets(cluster, owners)
    # A mark in use is one whose owner has a DaemonSet anywhere: what a tenant may write only makes us more careful.
    present = _find_present(cluster.daemon_sets, owners)
    trusted = cluster.daemon_sets and [
        each for each in cluster.daemon_sets if each.metadata.namespace in cluster.trusted_namespaces
    ]
    surely = _find_present(trusted, owners)

    @cache
    def find_marks(key: str) -> tuple[tuple[Owner, Mark], ...]:
        # The nodes of a cluster have the same keys.
        return tuple((owner, mark) for owner in owners if (mark := owner.find_mark(key)))

    partners = {vendor for name in counted if (vendor := find_vendor_of(name))}
    return {
        node.metadata.name: tuple(
            sorted(
                _Findings(node, owners, find_marks, partners, {*counted, *read_advertised(node)}).collect(
                    devices.get(node.metadata.name, Counter()), placed.get(node.metadata.name, ()), present, surely
                ),
                key=lambda each: (each.state is OwnerState.LEFT_OVER, each.vendor, each.name),
            )
        )
        for node in cluster.nodes
    }


class _Placed(msgspec.Struct, frozen=True):
    owner: str
    holds: Hold
    daemon_set: str


class _Trace(msgspec.Struct, frozen=True):
    owner: Owner
    vendor: str
    holds: Hold
    text: str


class _Findings:
    """Collects what one node shows."""

    def __init__(
        self,
        node: Node,
        owners: Sequence[Owner],
        find_marks: Callable[[str], Sequence[tuple[Owner, Mark]]],
        partners: Collection[str],
        ignored: Collection[str],
    ) -> None:
        self._node = node
        self._find_marks = find_marks
        self._owners = {each.name: each for each in owners}
        self._partners = partners
        self._ignored = ignored

    def collect(
        self,
        devices: Mapping[str, int],
        placed: Iterable[_Placed],
        present: Collection[str] | None,
        surely: Collection[str] | None,
    ) -> Iterator[NodeOwner]:
        marks = list(self._list_marks())
        running = [
            _Trace(owner, owner.vendor, each.holds, f"DaemonSet {each.daemon_set}")
            for each in placed
            if not self._is_partner((owner := self._owners[each.owner]).vendor, each.holds)
        ]
        given = list(self._list_given(devices, [*marks, *running]))
        traces = {(each.owner.name, each.vendor): each.owner for each in (*marks, *running, *(t for t, _ in given))}
        for key, owner in traces.items():
            running_of, marks_of = _select(running, key), _select(marks, key)
            offered = _select([trace for trace, now in given if now], key)
            zero = _select([trace for trace, now in given if not now], key)
            in_use = not owner.stays or present is None or owner.name in present
            there = offered or running_of or (in_use and marks_of)
            drives = [each.holds for each in (*running_of, *marks_of)]
            gives = tuple(each.text for each in offered)
            yield NodeOwner(
                name=owner.name,
                title=owner.title,
                vendor=key[1],
                # Of whom only a resource is seen gives cards, or gave them.
                holds=Hold.DRIVER if drives and not gives and Hold.CARDS not in drives else Hold.CARDS,
                state=OwnerState.OWNER if there else OwnerState.LEFT_OVER,
                gives=gives,
                evidence=(*gives, *_cut(zero), *_cut(running_of), *_cut(marks_of)),
                release=owner.release,
                drives=bool(there) and Hold.DRIVER in drives,
                sure=bool(offered or running_of or not owner.stays or surely is None or owner.name in surely),
            )

    def _list_marks(self) -> Iterator[_Trace]:
        tables = {"label": self._node.metadata.labels or {}, "annotation": self._node.metadata.annotations or {}}
        for kind, table in tables.items():
            for key, value in sorted(table.items()):
                for owner, mark in self._find_marks(key):
                    if mark.stands(value) and not self._is_partner(_vendor_of(owner, mark), mark.holds):
                        text = shorten(f"{kind} {key}={value}", _MOST_CHARACTERS)
                        yield _Trace(owner, _vendor_of(owner, mark), mark.holds, text)

    def _list_given(self, devices: Mapping[str, int], others: Sequence[_Trace]) -> Iterator[tuple[_Trace, bool]]:
        """Yield what is, or was, offered of the cards, by whom, and whether any of it is there now."""
        for owner in self._owners.values():
            for driver in owner.drivers:
                if devices.get(driver, 0):
                    text = f"{devices[driver]} devices of {driver}"
                    yield _Trace(owner, owner.vendor, Hold.CARDS, text), True
        allocatable, capacity = self._node.status.allocatable or {}, self._node.status.capacity or {}
        for resource in sorted({*allocatable, *capacity}):
            vendor = None if resource in self._ignored else find_vendor_of(resource)
            if vendor is None:
                continue
            now, of = allocatable.get(resource, "0"), capacity.get(resource, "0")
            # A plugin whose cards are unwell is there all the same; of one that is gone, a kubelet sets both to 0.
            text = f"{resource}: 0 of {of}" if now == "0" != of else f"{resource}: {now}"
            for owner in self._find_givers(vendor, others):
                yield _Trace(owner, vendor, Hold.CARDS, text), {now, of} != {"0"}

    @staticmethod
    def _find_givers(vendor: str, others: Sequence[_Trace]) -> list[Owner]:
        """Return whose plugin gives a vendor's cards: who claims them, else one that is not known."""
        found = {each.owner.name: each.owner for each in others if each.holds is Hold.CARDS and each.vendor == vendor}
        return list(found.values()) or [build_unknown_plugin(vendor)]

    def _is_partner(self, vendor: str, holds: Hold) -> bool:
        return holds is Hold.CARDS and vendor in self._partners


def _vendor_of(owner: Owner, mark: Mark) -> str:
    return owner.vendor if mark.vendor is None else mark.vendor


def _select(traces: Iterable[_Trace], key: tuple[str, str]) -> list[_Trace]:
    """Return those of one owner, for one vendor's cards."""
    return [each for each in traces if (each.owner.name, each.vendor) == key]


def _cut(traces: Sequence[_Trace]) -> Iterator[str]:
    yield from (each.text for each in traces[:_MOST])
    if len(traces) > _MOST:
        yield f"{len(traces) - _MOST} more"


def _count_devices(slices: Iterable[ResourceSlice]) -> dict[str, Counter[str]]:
    """Return how many devices each driver has on each node."""
    counts: dict[str, Counter[str]] = {}
    for each in slices:
        for node in each.list_nodes():
            counts.setdefault(node, Counter())[each.spec.driver] += 1
    return counts


def _find_present(daemon_sets: Sequence[DaemonSet] | None, owners: Sequence[Owner]) -> frozenset[str] | None:
    """Return the owners that have a DaemonSet anywhere; None where nobody knows."""
    if daemon_sets is None:
        return None
    return frozenset(
        owner.name
        for owner in owners
        for mark in owner.daemon_sets
        if any(each.bears(mark.labels) for each in daemon_sets)
    )


def _place_daemon_sets(cluster: Cluster, owners: Sequence[Owner]) -> dict[str, list[_Placed]]:
    """Return the DaemonSets that stand for themselves, by the nodes that their pods may be on."""
    facts = NodeFacts()
    # Without their taints: a node that is cordoned is still its owner's.
    facts.replace(GroupNode(metadata=node.metadata) for node in cluster.nodes)
    placed: dict[str, list[_Placed]] = {}
    for each in cluster.daemon_sets or ():
        if each.metadata.namespace not in cluster.trusted_namespaces:
            continue
        marks = [(o.name, mark) for o in owners for mark in o.daemon_sets if each.bears(mark.labels)]
        if not marks:
            continue
        owner, mark = marks[0]
        for node in facts.list_allowed(encode_rules(each.pod_spec)) or ():
            placed.setdefault(node, []).append(_Placed(owner, mark.holds, str(each)))
    return placed
