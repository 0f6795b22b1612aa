"""Pods of this node as allocation and the unit of memory see them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from accelkit.model.assignment import Assignment
from accelkit.node.node_cards import NodeCards

Key = tuple[str, str]  # pod UID, container name


@dataclass(frozen=True, slots=True)
class SharingPod:
    """A pod of this node that asks for units of memory, assigned or not.

    Attributes:
        unit_bytes: what a unit was worth when its kubelet gave it devices; the present unit before.
        started_at: when that was, as the kubelet writes it; None before.
    """

    namespace: str
    name: str
    unit_bytes: int
    started_at: str | None


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod of this node with its assignment.

    Attributes:
        order: sorts as the kubelet admits.
        containers: in the order in which it allocates.
        assignment: what is believed of the one that is written on it.
        units: how many units of memory each container asks for, by name.
        unit_bytes: what a unit was worth when its kubelet gave it devices; the present unit before.
        written_bytes: the memory on shared cards that is written for each container. Nothing is given by it: a pod that
            was bound in another unit than the present one is known by it, and refused.
        admitted: whether the kubelet has taken the pod, devices and all.
        limits: the resources that each container names, by its name.
    """

    uid: str
    namespace: str
    name: str
    order: tuple[int, str, str]
    containers: tuple[str, ...]
    assignment: Assignment
    units: Mapping[str, int] = field(default_factory=dict)
    unit_bytes: int = 1
    written_bytes: Mapping[str, int] = field(default_factory=dict)
    admitted: bool = False
    limits: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def select(self, resources: Collection[str]) -> AssignedPod | None:
        """Return the pod with the containers that ask for some of these resources; None where none does."""
        others = {name for name, limits in self.limits.items() if limits.isdisjoint(resources)}
        if others.isdisjoint(self.assignment.containers):
            return self
        kept = {name: shares for name, shares in self.assignment.containers.items() if name not in others}
        return replace(self, assignment=Assignment(kept)) if kept else None

    def sum_memory_bytes(self, container: str) -> int:
        """Return the memory that a container was assigned on shared cards."""
        return sum(share.memory_bytes for share in self.assignment.containers.get(container, ()) if not share.whole)

    def count_devices(self, container: str, *, whole: bool) -> Counter[str]:
        """Return how many devices of each card the container was assigned, of whole cards or of memory."""
        shares = [share for share in self.assignment.containers.get(container, ()) if share.whole is whole]
        if whole:
            return Counter({share.card: 1 for share in shares})
        return Counter({share.card: share.memory_bytes // self.unit_bytes for share in shares})

    def find_other_unit(self, container: str, unit_bytes: int) -> int | None:
        """Return the unit that a container which waits for its devices was assigned, where it is not `unit_bytes`."""
        units, written = self.units.get(container, 0), self.written_bytes.get(container, 0)
        return None if not units or written in (0, units * unit_bytes) else written // units


class AssignedPods(Protocol):
    """The pods of this node with devices of a resource, or waiting for some."""

    def list_assigned(self) -> list[AssignedPod]:
        """Return those with an assignment that can be believed."""

    def list_unassigned(self) -> frozenset[str]:
        """Return the UIDs of those without such an assignment that the kubelet has not taken."""

    async def refresh(self) -> bool:
        """Read them now; return whether the API server answered."""

    @property
    def node_cards(self) -> NodeCards | None:
        """The node's cards, by which cards that nobody assigned are chosen; None where they are not known."""
