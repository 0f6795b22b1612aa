"""A pod of this node with its assignment, as allocation and the unit of memory see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from accelkit.model.assignment import Assignment

Key = tuple[str, str]  # pod UID, container name


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod of this node with its assignment.

    Attributes:
        order: sorts as the kubelet admits.
        containers: in the order in which it allocates.
        units: how many units of memory each container asks for, by name.
        admitted: whether the kubelet has taken the pod, devices and all.
    """

    uid: str
    namespace: str
    name: str
    order: tuple[str, str]
    containers: tuple[str, ...]
    assignment: Assignment
    units: Mapping[str, int] = field(default_factory=dict)
    admitted: bool = False

    def sum_memory_bytes(self, container: str) -> int:
        """Return the memory that a container was assigned on shared cards."""
        return sum(share.memory_bytes for share in self.assignment.containers.get(container, ()) if not share.whole)

    @property
    def unit_bytes(self) -> set[int]:
        """The units that the pod was assigned its memory in; empty where it shares no card."""
        amounts = {name: self.sum_memory_bytes(name) for name in self.units}
        return {amount // self.units[name] for name, amount in amounts.items() if amount}

    def count_devices(self, container: str, *, whole: bool, unit_bytes: int) -> Counter[str]:
        """Return how many devices of each card the container was assigned, of whole cards or of memory.

        Its memory is counted in the unit of the time when it was assigned, which its limit tells; without one in
        `unit_bytes`.
        """
        shares = [share for share in self.assignment.containers.get(container, ()) if share.whole is whole]
        if whole:
            return Counter({share.card: 1 for share in shares})
        amount = sum(share.memory_bytes for share in shares)
        unit = amount // self.units[container] if self.units.get(container) and amount else unit_bytes
        return Counter({share.card: share.memory_bytes // unit for share in shares}) if unit else Counter()
