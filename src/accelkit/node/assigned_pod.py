"""Pods of this node, with the data that determines the allocation of devices and the unit of memory."""

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
    """A pod of this node that requests units of memory, with or without an assignment.

    Attributes:
        unit_bytes: the unit in which the kubelet allocated devices to the pod; before the allocation, the current unit.
        started_at: the time of the allocation, in the format of the kubelet; None if the pod has no devices yet.
    """

    namespace: str
    name: str
    unit_bytes: int
    started_at: str | None


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod of this node with its assignment.

    Attributes:
        order: the sort key for the order in which the kubelet admits pods.
        containers: the names of the containers, in the order in which the kubelet allocates their devices.
        assignment: the valid part of the assignment in the pod's annotation.
        units: the number of units of memory that each container requests, by container name.
        unit_bytes: the unit in which the kubelet allocated devices to the pod; before the allocation, the current unit.
        written_bytes: the memory on shared cards that the assignment specifies for each container. This field is used
            only to detect and reject a pod that was bound in a unit other than the current unit.
        admitted: whether the kubelet has admitted the pod and allocated its devices.
        limits: for each container name, the names of the resources in the container's limits.
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
        """Return the pod with only the containers that request any of these resources; None if there are none."""
        others = {name for name, limits in self.limits.items() if limits.isdisjoint(resources)}
        if others.isdisjoint(self.assignment.containers):
            return self
        kept = {name: shares for name, shares in self.assignment.containers.items() if name not in others}
        return replace(self, assignment=Assignment(kept)) if kept else None

    def sum_memory_bytes(self, container: str) -> int:
        """Return the memory on shared cards that was assigned to a container, in bytes."""
        return sum(share.memory_bytes for share in self.assignment.containers.get(container, ()) if not share.whole)

    def count_devices(self, container: str, *, whole: bool) -> Counter[str]:
        """Return, for each card, the number of devices (cards or memory units) that were assigned to the container."""
        shares = [share for share in self.assignment.containers.get(container, ()) if share.whole is whole]
        if whole:
            return Counter({share.card: 1 for share in shares})
        return Counter({share.card: share.memory_bytes // self.unit_bytes for share in shares})

    def find_other_unit(self, container: str, unit_bytes: int) -> int | None:
        """Return the unit in which memory was assigned to a waiting container; None if it is `unit_bytes`."""
        units, written = self.units.get(container, 0), self.written_bytes.get(container, 0)
        return None if not units or written in (0, units * unit_bytes) else written // units


class AssignedPods(Protocol):
    """The pods of this node that have devices of a resource, or wait for them."""

    def list_assigned(self) -> list[AssignedPod]:
        """Return the pods with a valid assignment."""

    def list_unassigned(self) -> frozenset[str]:
        """Return the UIDs of the pods that have no valid assignment and that the kubelet has not admitted."""

    async def refresh(self) -> bool:
        """List the pods again without delay; return whether the API server responded."""

    @property
    def node_cards(self) -> NodeCards | None:
        """The node's cards, from which the agent chooses if there is no assignment; None if they are unknown."""
