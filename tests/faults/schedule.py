"""The schedule of a storm: operations and faults, derived from the seed alone."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

# What users and administrators do, with how often each is drawn beside the others.
OPERATIONS = {
    "create_burst": 12,
    "delete": 8,
    "delete_by_force": 6,
    "complete": 6,
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


def plan_round(seed: int, number: int, seconds: float, pods: int) -> list[Step]:
    """Return the steps of a round, in order.

    Args:
        seed: of the storm.
        number: of the round.
        seconds: for how long it storms.
        pods: how many pods a burst has at most.
    """
    # Not by a hash, which differs in each process.
    draw = random.Random(f"{seed}/{number}")
    steps = []
    at = 0.0
    while at < seconds:
        (action,) = draw.choices(list(OPERATIONS), weights=list(OPERATIONS.values()))
        steps.append(Step(at, action, draw.random(), _draw_arguments(draw, action, pods)))
        at = round(at + draw.expovariate(1.0), 2)
    return steps


def _draw_arguments(draw: random.Random, action: str, pods: int) -> dict[str, Any]:
    if action == "create_burst":
        kinds = draw.choices(["memory", "cards", "two", "init"], weights=[12, 2, 2, 1], k=draw.randint(1, pods))
        return {"pods": [(kind, draw.choice((1, 1, 1, 2, 2, 4, 8, 12))) for kind in kinds]}
    if action in ("delete", "delete_by_force", "complete"):
        return {"count": draw.randint(1, max(2, pods // 2))}
    return {}
