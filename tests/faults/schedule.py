"""The schedule of a storm: operations and faults, derived from the seed alone."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

# What users and administrators do, with how often each is drawn beside the others.
OPERATIONS = {
    "create_burst": 12,
    "create_flood": 2,
    "delete_all": 1,
    "create_group": 3,
    "create_deployment": 2,
    "scale_deployment": 3,
    "delete_deployment": 2,
    "delete": 8,
    "delete_by_force": 6,
    "complete": 6,
    "evict": 3,
    "resize": 3,
    "cordon": 1,
    "fail_card": 1,
}


@dataclass(frozen=True)
class Step:
    """One step: `at` seconds after the round began. What it acts on is drawn by `chance` of what exists then."""

    at: float
    action: str
    chance: float
    arguments: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = " ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.at:6.2f} {self.action} {self.chance:.4f} {words}".rstrip()


# Of memory, that a container asks for.
UNITS = (1, 1, 1, 2, 2, 4, 8, 12)
# Who is broken, with how often each is drawn; `agents` and `kubelets` are one of the processes of these.
PROCESSES = {
    "leader": 5,
    "follower": 2,
    "agents": 6,
    "kubelets": 4,
    "kube-scheduler": 2,
    "kube-apiserver": 2,
    "etcd": 1,
    "kube-controller-manager": 1,
}
WAYS = {name: weight for name, weight in PROCESSES.items() if name not in ("kube-apiserver", "etcd")}
del WAYS["kube-controller-manager"]
# The watches of these services get events that an API server does not send, and the services have to tolerate them.
READERS = {name: weight for name, weight in WAYS.items() if name in ("leader", "follower", "agents")}
# The way from kube-scheduler to the extender that leads is one, too.
LINKS = {**WAYS, "service": 3}


@dataclass(frozen=True)
class Kind:
    """A kind of fault: how often it is drawn, on whom, and for how many seconds at least and at most.

    `delay` are the seconds by which something is late, or by which a clock is wrong, at least and at most.
    """

    weight: int
    targets: dict[str, int]
    seconds: tuple[float, float]
    delay: tuple[float, float] | None = None


FAULTS = {
    "kill": Kind(10, PROCESSES, (0.0, 5.0)),
    "terminate": Kind(3, {"leader": 3, "follower": 1, "agents": 3, "kubelets": 1}, (0.0, 3.0)),
    "stop": Kind(8, PROCESSES, (0.5, 9.0)),
    # For so long that another extender leads before it goes on.
    "freeze": Kind(2, {"leader": 1}, (16.0, 22.0)),
    "cut": Kind(5, LINKS, (0.5, 8.0)),
    "stall": Kind(5, LINKS, (1.0, 10.0)),
    "slow": Kind(4, LINKS, (3.0, 10.0), (0.02, 0.4)),
    "late_watches": Kind(6, WAYS, (3.0, 10.0), (0.3, 4.0)),
    "drop_watches": Kind(4, WAYS, (0.0, 0.0)),
    "expire_watches": Kind(4, WAYS, (0.5, 1.0)),
    "rewind_watches": Kind(3, READERS, (0.5, 2.0)),
    "repeat_events": Kind(3, READERS, (3.0, 10.0)),
    "swap_events": Kind(3, READERS, (3.0, 10.0)),
    "lose_requests": Kind(3, WAYS, (0.5, 2.0)),
    "lose_answers": Kind(5, WAYS, (0.5, 2.0)),
    "jump_clock": Kind(3, {"leader": 2, "follower": 1, "agents": 3}, (2.0, 8.0), (-900.0, 3600.0)),
    "fill_disk": Kind(2, {"logs": 1}, (2.0, 8.0)),
    "compact": Kind(1, {"etcd": 1}, (0.0, 0.0)),
    "remove_node": Kind(1, {"kubelets": 1}, (0.0, 5.0)),
    "change_unit": Kind(1, {"services": 1}, (0.0, 0.0)),
    "change_policy": Kind(1, {"extenders": 1}, (0.0, 0.0)),
    "change_dialect": Kind(2, {"agents of all": 1}, (0.0, 0.0)),
}


def plan_round(
    seed: int,
    number: int,
    seconds: float,
    pods: int,
    *,
    processes: int = 2,
    fault_seconds: float = 6.0,
    without: Collection[str] = (),
) -> list[Step]:
    """Return the steps of a round, in order.

    Args:
        seed: of the storm.
        number: of the round.
        seconds: for how long it storms.
        pods: how many pods a burst has at most.
        processes: how many processes the agents have, and the kubelets.
        fault_seconds: between one fault and the next one, on average; 0 for no faults.
        without: faults that are not drawn.
    """
    # Not by a hash, which differs in each process.
    operations = random.Random(f"{seed}/{number}/operations")
    steps = list(_plan_operations(operations, seconds, pods))
    if fault_seconds:
        faults = random.Random(f"{seed}/{number}/faults")
        kinds = {name: kind.weight for name, kind in FAULTS.items() if name not in without}
        steps += _plan_faults(faults, kinds, seconds, fault_seconds, processes)
    return sorted(steps, key=lambda step: step.at)


def _plan_operations(draw: random.Random, seconds: float, pods: int) -> Iterator[Step]:
    at = 0.0
    while at < seconds:
        action = _draw(draw, OPERATIONS)
        yield Step(at, action, draw.random(), _draw_arguments(draw, action, pods))
        at = round(at + draw.expovariate(1.0), 2)


def _plan_faults(
    draw: random.Random, kinds: dict[str, int], seconds: float, every: float, processes: int
) -> Iterator[Step]:
    at = round(draw.expovariate(1 / every), 2)
    while at < seconds:
        action = _draw(draw, kinds)
        kind = FAULTS[action]
        target = _draw(draw, kind.targets)
        if target in ("agents", "kubelets"):
            target = f"{target}-{draw.randrange(processes)}"
        arguments: dict[str, Any] = {"target": target, "seconds": round(draw.uniform(*kind.seconds), 1)}
        if kind.delay:
            arguments["delay"] = round(draw.uniform(*kind.delay), 2)
        if action == "stall":
            arguments["reset"] = draw.random() < 0.5
        yield Step(at, action, draw.random(), arguments)
        at = round(at + draw.expovariate(1 / every), 2)


def _draw(draw: random.Random, weights: dict[str, int]) -> str:
    return draw.choices(list(weights), weights=list(weights.values()))[0]


def _draw_arguments(draw: random.Random, action: str, pods: int) -> dict[str, Any]:
    if action == "create_burst":
        kinds = draw.choices(["memory", "cards", "two", "init"], weights=[12, 2, 2, 1], k=draw.randint(1, pods))
        return {"pods": [(kind, draw.choice(UNITS)) for kind in kinds]}
    if action == "create_flood":
        return {"pods": [("memory", 1)] * (5 * pods)}
    if action == "create_group":
        return {"size": draw.randint(2, 6), "units": draw.choice(UNITS), "gated": draw.random() < 0.5}
    if action in ("create_deployment", "scale_deployment"):
        return {"replicas": draw.randint(0, max(2, pods // 3)), "units": draw.choice(UNITS)}
    return {"count": draw.randint(1, max(2, pods // 2))}
