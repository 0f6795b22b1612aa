"""Which nodes have another driver than is wanted, by their pods, their agents and unfinished upgrades."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from accelkit.enablement.drivers.driver_pods import DriverPod
from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.planning.plan import PlannedSet, Problem
from accelkit.model.keys import DRIVER_UPGRADE_ANNOTATION

# Of mismatches, those that an upgrade mends. A kernel that changed is mended by labelling the node anew.
_MENDED: Final = frozenset({"DriverOther", "DriverMissing"})


class Outdated(msgspec.Struct, frozen=True):
    """A node whose driver is to be upgraded.

    Attributes:
        node: its name.
        why: what was seen, as a sentence.
        cordoned: whether somebody cordoned it, and not an upgrade of ours.
    """

    node: str
    why: str
    cordoned: bool


def find_outdated(
    nodes: Iterable[DriverNode], sets: Sequence[PlannedSet], pods: Iterable[DriverPod], problems: Iterable[Problem]
) -> tuple[Outdated, ...]:
    """Return the nodes whose driver is to be upgraded, by name.

    Args:
        nodes: of the cluster.
        sets: that are planned; none where drivers do not run in containers.
        pods: of drivers.
        problems: what `find_mismatches` found.
    """
    images = {(name, each.image) for each in sets for name in each.nodes}
    wanted = {name for name, _ in images}
    why: dict[str, str] = {}
    for pod in pods:
        name = pod.spec.node_name
        if name in wanted and (name, pod.image) not in images:
            why[name] = f"its driver's pod runs {pod.image}"
    for problem in problems:
        if problem.reason in _MENDED:
            why |= {name: problem.evidence for name in problem.nodes if name not in why}
    listed: Mapping[str, DriverNode] = {node.name: node for node in nodes}
    for node in listed.values():
        if DRIVER_UPGRADE_ANNOTATION in node.annotations:
            why.setdefault(node.name, "an upgrade of its driver was interrupted, or failed")
    return tuple(_describe(listed[name], why[name]) for name in sorted(why) if name in listed)


def _describe(node: DriverNode, why: str) -> Outdated:
    return Outdated(node.name, why, node.unschedulable and DRIVER_UPGRADE_ANNOTATION not in node.annotations)
