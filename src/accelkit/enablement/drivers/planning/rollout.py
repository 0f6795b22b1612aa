"""Nodes whose driver needs an upgrade, according to their pods, their agents and unfinished upgrades."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from accelkit.enablement.drivers.driver_pods import DriverPod
from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.planning.plan import PlannedSet, Problem
from accelkit.model.keys import DRIVER_UPGRADE_ANNOTATION

# The mismatches that an upgrade repairs. After a kernel change, new labels are sufficient.
_REPAIRED: Final = frozenset({"DriverOther", "DriverMissing"})


class Outdated(msgspec.Struct, frozen=True):
    """A node whose driver needs an upgrade.

    Attributes:
        node: the name of the node.
        why: the reason, as a sentence.
        cordoned: whether the node is cordoned, but not by an accelkit upgrade.
    """

    node: str
    why: str
    cordoned: bool


def find_outdated(
    nodes: Iterable[DriverNode], sets: Sequence[PlannedSet], pods: Iterable[DriverPod], problems: Iterable[Problem]
) -> tuple[Outdated, ...]:
    """Return the nodes whose driver needs an upgrade, sorted by name.

    Args:
        nodes: the nodes of the cluster.
        sets: the planned DaemonSets; empty if drivers do not run in containers.
        pods: the driver pods.
        problems: the result of `find_mismatches`.
    """
    images = {(name, each.image) for each in sets for name in each.nodes}
    desired = {name for name, _ in images}
    why: dict[str, str] = {}
    for pod in pods:
        name = pod.spec.node_name
        if name in desired and (name, pod.image) not in images:
            why[name] = f"its driver pod runs {pod.image}"
    for problem in problems:
        if problem.reason in _REPAIRED:
            why |= {name: problem.evidence for name in problem.nodes if name not in why}
    listed: Mapping[str, DriverNode] = {node.name: node for node in nodes}
    for node in listed.values():
        if DRIVER_UPGRADE_ANNOTATION in node.annotations:
            why.setdefault(node.name, "an upgrade of its driver failed or was interrupted")
    return tuple(_describe(listed[name], why[name]) for name in sorted(why) if name in listed)


def _describe(node: DriverNode, why: str) -> Outdated:
    return Outdated(node.name, why, node.unschedulable and DRIVER_UPGRADE_ANNOTATION not in node.annotations)
