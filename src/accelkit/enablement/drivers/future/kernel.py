"""Whether a node's cards have a driver under another kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from accelkit.enablement.drivers.future.answers import Answer, Aspect, Facts, Works, answer, find_worst
from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.settings import VendorDriver, fill_pattern, list_variables, needs_system


class Delivery(msgspec.Struct, frozen=True):
    """How drivers come to nodes.

    Attributes:
        mode: `preinstalled`, `package`, `container` or `kmm`.
        drivers: by vendor.
        module_manager: whether KMM is installed.
    """

    mode: str
    drivers: Mapping[str, VendorDriver]
    module_manager: bool = False


def find_image(node: DriverNode, vendor: str, kernel: str, driver: VendorDriver, version: str = "") -> str:
    """Return the image that a node would get; empty where there is none.

    The system is that of today: a kernel of another release of it is found by a pattern without it alone.
    """
    variables = list_variables(kernel, node.system, vendor, version or driver.version)
    return fill_pattern(driver.find_pattern(kernel), variables)


def list_images(
    nodes: Iterable[DriverNode], delivery: Delivery, kernel: str, version: str = "", vendor: str = ""
) -> set[str]:
    """Return the images that an answer needs to know of; an empty kernel stands for that of each node."""
    if delivery.mode not in {"container", "kmm"}:
        return set()
    return {
        image
        for node in nodes
        for name in node.vendors
        if name in delivery.drivers and (not vendor or name == vendor)
        if (image := find_image(node, name, kernel or node.kernel, delivery.drivers[name], version))
    }


def judge_kernel(node: DriverNode, kernel: str, delivery: Delivery, facts: Facts) -> Answer:
    """Answer whether a node's cards have drivers under this kernel: the worst of all its vendors."""
    if kernel == node.kernel:
        return _say(node, Works.YES, "Works", f"the node runs {kernel} already")
    if not node.vendors:
        return _say(node, Works.YES, "Works", "the node has no cards that need a driver")
    return find_worst(_judge_vendors(node, kernel, delivery, facts)) or _say(node, Works.YES, "Works", "")


def _judge_vendors(node: DriverNode, kernel: str, delivery: Delivery, facts: Facts) -> Iterator[Answer]:
    for vendor in node.vendors:
        driver = delivery.drivers.get(vendor)
        if delivery.mode == "preinstalled":
            text = f"the hosts bring {vendor}'s driver themselves; nothing here tells for which kernels"
            yield _say(node, Works.UNKNOWN, "HostsOwnDriver", text)
        elif driver is None:
            text = f"accelkit_driver_vendors says nothing of {vendor}"
            yield _say(node, Works.UNKNOWN, "NotConfigured", text)
        elif delivery.mode == "package":
            yield judge_package(node, Aspect.KERNEL, facts, f"for {kernel}")
        elif delivery.mode == "kmm" and not delivery.module_manager:
            yield _say(node, Works.NO, "NoModuleManager", "the cluster has no KMM")
        else:
            yield judge_image(node, Aspect.KERNEL, vendor, kernel, driver, facts=facts)


def judge_package(node: DriverNode, aspect: Aspect, facts: Facts, what: str) -> Answer:
    """Answer by what the node's package manager said."""
    found = facts.packages.get(node.name)
    if found is None:
        return answer(node.name, aspect, Works.UNKNOWN, "PackageUnknown", f"nobody asked the host for packages {what}")
    if found:
        return answer(node.name, aspect, Works.YES, "Works", f"the host's repositories have the packages {what}")
    return answer(node.name, aspect, Works.NO, "PackageMissing", f"the host's repositories lack the packages {what}")


def judge_image(
    node: DriverNode,
    aspect: Aspect,
    vendor: str,
    kernel: str,
    driver: VendorDriver,
    *,
    facts: Facts,
    version: str = "",
) -> Answer:
    """Answer by whether there is an image, or what builds it."""
    image = find_image(node, vendor, kernel, driver, version)
    if not image:
        text = f"neither a mapping nor a pattern gives an image of {vendor}'s driver for {kernel}"
        return answer(node.name, aspect, Works.NO, "NoDriverImage", text)
    if needs_system(driver.find_pattern(kernel)) and not node.system.id:
        return answer(node.name, aspect, Works.UNKNOWN, "SystemUnknown", f"{image} names a system that is not known")
    present = facts.images.get(image)
    if present is None:
        return answer(node.name, aspect, Works.UNKNOWN, "ImageUnknown", f"whether {image} exists could not be read")
    if present:
        return answer(node.name, aspect, Works.YES, "Works", f"{image} is there")
    if driver.build is not None:
        return answer(node.name, aspect, Works.UNKNOWN, "ImageWillBeBuilt", f"{image} is not there, and can be built")
    return answer(node.name, aspect, Works.NO, "ImageMissing", f"{image} is not in its registry")


def _say(node: DriverNode, works: Works, reason: str, evidence: str) -> Answer:
    return answer(node.name, Aspect.KERNEL, works, reason, evidence)
