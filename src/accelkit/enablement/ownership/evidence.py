"""Owners of the nodes' cards, with the evidence; a pure function derives them from objects.

Owners are determined independently for each vendor's cards. Resources that accelkit offers, and resources of dialects
that the extender counts, do not indicate an owner. Marks of a removed owner, and resources that
a kubelet reports with the amount 0, are leftovers.
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
    HeldPart,
    Mark,
    Owner,
    build_unknown_plugin,
    find_vendor_of,
    load_owners,
)
from accelkit.kube.scheduling.allowed_nodes import SchedulingFacts, encode_rules
from accelkit.kube.views.scheduling import SchedulingNode
from accelkit.model.pod import Node
from accelkit.texts import shorten
from accelkit.vendors.advertised import read_advertised

# The maximum number of items for each kind of evidence.
_MOST: Final = 4
_MOST_CHARACTERS: Final = 200


class OwnerState(StrEnum):
    """State of an owner on a node."""

    OWNER = "owner"
    LEFT_OVER = "left-over"


class NodeOwner(msgspec.Struct, frozen=True):
    """An owner of a node's cards, or a previous owner whose traces remain on the node.

    Attributes:
        name: the machine-readable name.
        title: the name in messages.
        vendor: the vendor of the cards; empty if the vendor is unknown.
        holds: whether it owns the driver or the cards.
        drives: whether it loads the driver, regardless of `holds`.
        sure: whether data that tenants cannot write proves that the owner is present.
        state: whether the owner is present or was removed.
        gives: the resources that the owner currently offers to pods, such as `nvidia.com/gpu: 8`; empty for none.
        evidence: the evidence, as phrases for a sentence.
        release: the instruction for releasing a node from this owner.
    """

    name: str
    title: str
    vendor: str
    holds: HeldPart
    state: OwnerState
    gives: tuple[str, ...]
    evidence: tuple[str, ...]
    release: str
    drives: bool = False
    sure: bool = True


class Cluster(msgspec.Struct, frozen=True):
    """The objects that were read from a cluster.

    Attributes:
        nodes: all nodes.
        slices: all ResourceSlices.
        daemon_sets: all DaemonSets; None if they could not be read. Without this list, no mark is considered a
            leftover.
        trusted_namespaces: the namespaces whose DaemonSets are sufficient evidence on their own.
    """

    nodes: Sequence[Node]
    slices: Sequence[ResourceSlice] = ()
    daemon_sets: Sequence[DaemonSet] | None = ()
    trusted_namespaces: Collection[str] = ()


def find_owners(
    cluster: Cluster, *, counted: Collection[str] = (), table: Sequence[Owner] | None = None
) -> dict[str, tuple[NodeOwner, ...]]:
    """Return the current and previous owners of each node's cards, by node.

    Args:
        cluster: the objects.
        counted: extended resources whose usage by pods is counted by the extender. The device plugins of these
            resources do not conflict with accelkit.
        table: the table of owners; None for accelkit's own table.

    Returns:
        The sorted owners of each node; empty for a node without owners.
    """
    owners = load_owners() if table is None else table
    devices = _count_devices(cluster.slices)
    placed = _place_daemon_sets(cluster, owners)
    # A mark is in use if its owner has a DaemonSet in any namespace. A forged DaemonSet only makes the result more
    # cautious.
    present = _find_present(cluster.daemon_sets, owners)
    trusted = cluster.daemon_sets and [
        each for each in cluster.daemon_sets if each.metadata.namespace in cluster.trusted_namespaces
    ]
    surely = _find_present(trusted, owners)

    @cache
    def find_marks(key: str) -> tuple[tuple[Owner, Mark], ...]:
        # Most nodes of a cluster have the same keys.
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
    holds: HeldPart
    daemon_set: str


class _Trace(msgspec.Struct, frozen=True):
    owner: Owner
    vendor: str
    holds: HeldPart
    text: str


class _Findings:
    """Collector of the evidence for one node."""

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
                # If a resource is the only evidence, the owner offers or has offered cards.
                holds=HeldPart.DRIVER if drives and not gives and HeldPart.CARDS not in drives else HeldPart.CARDS,
                state=OwnerState.OWNER if there else OwnerState.LEFT_OVER,
                gives=gives,
                evidence=(*gives, *_cut(zero), *_cut(running_of), *_cut(marks_of)),
                release=owner.release,
                drives=bool(there) and HeldPart.DRIVER in drives,
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
        """Yield the current and previous card resources with their owners, and whether each resource still exists."""
        for owner in self._owners.values():
            for driver in owner.drivers:
                if devices.get(driver, 0):
                    text = f"{devices[driver]} devices of {driver}"
                    yield _Trace(owner, owner.vendor, HeldPart.CARDS, text), True
        allocatable, capacity = self._node.status.allocatable or {}, self._node.status.capacity or {}
        for resource in sorted({*allocatable, *capacity}):
            vendor = None if resource in self._ignored else find_vendor_of(resource)
            if vendor is None:
                continue
            now, of = allocatable.get(resource, "0"), capacity.get(resource, "0")
            # A device plugin is present even if all its cards are unhealthy. After its removal, the kubelet reports 0
            # for both amounts.
            text = f"{resource}: 0 of {of}" if now == "0" != of else f"{resource}: {now}"
            for owner in self._find_givers(vendor, others):
                yield _Trace(owner, vendor, HeldPart.CARDS, text), {now, of} != {"0"}

    @staticmethod
    def _find_givers(vendor: str, others: Sequence[_Trace]) -> list[Owner]:
        """Return the owners of a vendor's cards; if there are no owners, return an unknown device plugin."""
        found = {
            each.owner.name: each.owner for each in others if each.holds is HeldPart.CARDS and each.vendor == vendor
        }
        return list(found.values()) or [build_unknown_plugin(vendor)]

    def _is_partner(self, vendor: str, holds: HeldPart) -> bool:
        return holds is HeldPart.CARDS and vendor in self._partners


def _vendor_of(owner: Owner, mark: Mark) -> str:
    return owner.vendor if mark.vendor is None else mark.vendor


def _select(traces: Iterable[_Trace], key: tuple[str, str]) -> list[_Trace]:
    """Return the traces of one owner for one vendor's cards."""
    return [each for each in traces if (each.owner.name, each.vendor) == key]


def _cut(traces: Sequence[_Trace]) -> Iterator[str]:
    yield from (each.text for each in traces[:_MOST])
    if len(traces) > _MOST:
        yield f"{len(traces) - _MOST} more"


def _count_devices(slices: Iterable[ResourceSlice]) -> dict[str, Counter[str]]:
    """Return the number of devices of each driver on each node."""
    counts: dict[str, Counter[str]] = {}
    for each in slices:
        for node in each.list_nodes():
            counts.setdefault(node, Counter())[each.spec.driver] += 1
    return counts


def _find_present(daemon_sets: Sequence[DaemonSet] | None, owners: Sequence[Owner]) -> frozenset[str] | None:
    """Return the owners that have a DaemonSet in any namespace; None if the DaemonSets are unknown."""
    if daemon_sets is None:
        return None
    return frozenset(
        owner.name
        for owner in owners
        for mark in owner.daemon_sets
        if any(each.has_labels(mark.labels) for each in daemon_sets)
    )


def _place_daemon_sets(cluster: Cluster, owners: Sequence[Owner]) -> dict[str, list[_Placed]]:
    """Return the DaemonSets that are sufficient evidence on their own, grouped by the nodes their pods may run on."""
    facts = SchedulingFacts()
    # Taints are ignored, because a cordoned node still belongs to its owner.
    facts.replace(SchedulingNode(metadata=node.metadata) for node in cluster.nodes)
    placed: dict[str, list[_Placed]] = {}
    for each in cluster.daemon_sets or ():
        if each.metadata.namespace not in cluster.trusted_namespaces:
            continue
        marks = [(o.name, mark) for o in owners for mark in o.daemon_sets if each.has_labels(mark.labels)]
        if not marks:
            continue
        owner, mark = marks[0]
        for node in facts.list_allowed(encode_rules(each.pod_spec)) or ():
            placed.setdefault(node, []).append(_Placed(owner, mark.holds, str(each)))
    return placed
