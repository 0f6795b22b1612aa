"""Plan with one DaemonSet for each kernel and vendor, and with a reason for each node without a driver."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.planning.names import build_name
from accelkit.enablement.drivers.reasons import NEXT_ACTIONS, DriverReason, Obstacle
from accelkit.enablement.drivers.settings import VendorDriver, fill_pattern, list_variables, needs_system
from accelkit.enablement.drivers.systems import System
from accelkit.inspection.provided_driver import build_label
from accelkit.model.keys import DRIVER_KERNEL_LABEL, DRIVER_VENDOR_LABEL_PREFIX
from accelkit.texts import list_some


class PlannedSet(msgspec.Struct, frozen=True):
    """A planned DaemonSet, which runs the driver of one vendor for one kernel.

    Attributes:
        name: the name of the DaemonSet, and of the Job that builds the image.
        vendor: the vendor of the cards.
        kernel: the release of the kernel.
        label: the value of `KERNEL_LABEL` on the nodes.
        system: the operating system of the nodes, for example `rhel9.4`.
        image: the image, with all variables replaced by their values.
        version: the version of the driver; empty for any version.
        nodes: node names, sorted. Nodes on which changes are blocked are included, because their drivers are not
            removed.
    """

    name: str
    vendor: str
    kernel: str
    label: str
    system: str
    image: str
    version: str
    nodes: tuple[str, ...]


class Problem(msgspec.Struct, frozen=True):
    """The reason why some nodes currently do not get a driver.

    Attributes:
        evidence: the evidence, as a sentence.
        nodes: the sorted names of the nodes.
        wrong: whether the problem requires a change and makes the run fail; otherwise, it is only reported.
    """

    reason: DriverReason
    evidence: str
    nodes: tuple[str, ...]
    wrong: bool = True

    def __str__(self) -> str:
        return f"{self.evidence} ({list_some(self.nodes)}); {NEXT_ACTIONS[self.reason]}"


class DriverPlan(msgspec.Struct, frozen=True):
    """The desired drivers.

    Attributes:
        sets: the DaemonSets by name.
        problems: the problems of nodes without a driver.
        labels: by node, the labels to write; nodes that have the labels, or on which changes are blocked, are omitted.
    """

    sets: tuple[PlannedSet, ...]
    problems: tuple[Problem, ...]
    labels: Mapping[str, Mapping[str, str]]


def plan_drivers(nodes: Iterable[DriverNode], drivers: Mapping[str, VendorDriver], prefix: str) -> DriverPlan:
    """Plan the DaemonSets of all kernels.

    A node that is not ready or is cordoned does not get a label. If the node already has a label, the DaemonSet for the
    kernel in the label remains planned, so that the driver is not removed while the node is unavailable.

    Args:
        nodes: the nodes of the cluster; nodes without cards of these vendors are ignored.
        drivers: the drivers that run in containers, by vendor.
        prefix: the prefix for names.
    """
    listed = list(nodes)
    labels: dict[str, dict[str, str]] = {}
    groups: dict[tuple[str, str], list[DriverNode]] = {}
    for node in listed:
        vendors = [vendor for vendor in node.vendors if vendor in drivers]
        if not vendors:
            continue
        desired = {DRIVER_KERNEL_LABEL: build_label(node.kernel)} | {
            f"{DRIVER_VENDOR_LABEL_PREFIX}{vendor}": "true" for vendor in vendors
        }
        lacking = {key: value for key, value in desired.items() if node.labels.get(key) != value}
        if lacking and not node.obstacle:
            labels[node.name] = lacking
        for vendor in vendors:
            known = node.kernel and not {DRIVER_KERNEL_LABEL, f"{DRIVER_VENDOR_LABEL_PREFIX}{vendor}"} & lacking.keys()
            if known or not node.obstacle:
                groups.setdefault((vendor, node.kernel), []).append(node)
    sets, wrong = _plan_groups(groups, drivers, prefix)
    return DriverPlan(tuple(sets), (*wrong, *list_obstacles(listed, drivers)), labels)


def list_obstacles(nodes: Iterable[DriverNode], drivers: Collection[str]) -> list[Problem]:
    """Return the conditions that block changes on nodes with cards from these vendors."""
    return [
        _describe_obstacle(node, node.obstacle)
        for node in nodes
        if node.obstacle and not {*node.vendors}.isdisjoint(drivers)
    ]


def _plan_groups(
    groups: Mapping[tuple[str, str], Sequence[DriverNode]], drivers: Mapping[str, VendorDriver], prefix: str
) -> tuple[list[PlannedSet], list[Problem]]:
    names = Counter(build_name(prefix, vendor, kernel) for vendor, kernel in groups)
    sets, problems = list[PlannedSet](), list[Problem]()
    for (vendor, kernel), members in sorted(groups.items()):
        driver, listed = drivers[vendor], tuple(sorted(node.name for node in members))
        pattern = driver.find_pattern(kernel)
        if problem := _find_problem(vendor, kernel, members, pattern):
            problems.append(problem)
            continue
        system = members[0].system
        image = fill_pattern(pattern, list_variables(kernel, system, vendor, driver.version))
        name = build_name(prefix, vendor, kernel)
        if names[name] > 1:
            name = build_name(prefix, vendor, kernel, distinct=True)
        sets.append(PlannedSet(name, vendor, kernel, build_label(kernel), str(system), image, driver.version, listed))
    return sets, problems


def _find_problem(vendor: str, kernel: str, members: Sequence[DriverNode], pattern: str) -> Problem | None:
    by_system: dict[System, list[str]] = {}
    for node in members:
        by_system.setdefault(node.system, []).append(node.name)
    listed = tuple(sorted(node.name for node in members))
    if len(by_system) > 1:
        found = "; ".join(
            f"{str(system) or 'unknown'}: {list_some(sorted(names))}"
            for system, names in sorted(by_system.items(), key=lambda each: str(each[0]))
        )
        return Problem("TwoSystems", f"nodes with kernel {kernel} run different operating systems: {found}", listed)
    if not pattern:
        return Problem("NoDriverImage", f"no image of the {vendor} driver is configured for kernel {kernel}", listed)
    if needs_system(pattern) and not all(node.system.id for node in members):
        return Problem("SystemUnknown", f"the operating system of nodes with kernel {kernel} is unknown", listed)
    return None


def _describe_obstacle(node: DriverNode, obstacle: Obstacle) -> Problem:
    sentences: dict[Obstacle, str] = {
        "NodeNotReady": "the node is not ready" if node.ready is False else "it is unknown whether the node is ready",
        "NodeCordoned": "the node is cordoned",
        "KernelUnknown": "the node does not report its kernel",
    }
    return Problem(obstacle, sentences[obstacle], (node.name,), wrong=False)
