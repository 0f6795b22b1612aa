"""CPU and memory of pods and nodes, as kube-scheduler counts them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from accelkit.errors import QuantityError
from accelkit.model.pod import Container, PodSpec
from accelkit.model.units import parse_milli, parse_quantity


class HostAmounts(NamedTuple):
    """Amounts of a host: CPU in thousandths, and memory in bytes. Unknown amounts are infinite."""

    cpu_milli: float
    memory_bytes: float

    def __add__(self, other: object) -> HostAmounts:
        """Return the sums of the amounts."""
        if not isinstance(other, HostAmounts):
            return NotImplemented
        return HostAmounts(self.cpu_milli + other.cpu_milli, self.memory_bytes + other.memory_bytes)

    def most(self, other: HostAmounts) -> HostAmounts:
        """Return the greater value of each amount."""
        return HostAmounts(max(self.cpu_milli, other.cpu_milli), max(self.memory_bytes, other.memory_bytes))


NOTHING: Final = HostAmounts(0.0, 0.0)
UNKNOWN: Final = HostAmounts(math.inf, math.inf)


def read_pod_amounts(spec: PodSpec) -> HostAmounts:
    """Return the CPU and memory that a pod requests, including its overhead.

    Each amount is the overhead plus the greater of two values: the sum for the app containers and sidecars, and the
    maximum for an init container together with the sidecars before it. A request that cannot be read is treated as 0,
    because kube-scheduler cannot read it either.
    """
    sidecars = highest = NOTHING
    for container in spec.init_containers or ():
        amounts = _read(container.resources.requests, NOTHING)
        if container.restart_policy == "Always":
            sidecars += amounts
            highest = highest.most(sidecars)
        else:
            highest = highest.most(sidecars + amounts)
    return highest.most(sidecars + _sum_up(spec.containers)) + _read(spec.overhead, NOTHING)


def read_node_amounts(allocatable: Mapping[str, str] | None) -> HostAmounts:
    """Return the allocatable CPU and memory of a node."""
    return _read(allocatable, UNKNOWN)


def write_amounts(amounts: HostAmounts) -> dict[str, str | int | float]:
    """Return amounts as Kubernetes quantities."""
    return {"cpu": f"{int(amounts.cpu_milli)}m", "memory": str(int(amounts.memory_bytes))}


def _sum_up(containers: Iterable[Container]) -> HostAmounts:
    total = NOTHING
    for container in containers:
        total += _read(container.resources.requests, NOTHING)
    return total


def _read(quantities: Mapping[str, str | int | float] | None, missing: HostAmounts) -> HostAmounts:
    found = quantities or {}
    cpu, memory = missing
    try:
        if "cpu" in found:
            cpu = parse_milli(str(found["cpu"]))
        if "memory" in found:
            memory = parse_quantity(str(found["memory"]))
    except QuantityError:
        return missing
    return HostAmounts(float(cpu), float(memory))
