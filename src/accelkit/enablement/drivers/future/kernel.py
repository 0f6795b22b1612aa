"""Prediction of whether a node's cards have drivers for a different kernel."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from accelkit.enablement.drivers.future.answers import Answer, Aspect, FutureFacts, Works, answer, find_worst
from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.reasons import DriverReason
from accelkit.enablement.drivers.settings import VendorDriver, fill_pattern, list_variables, needs_system


class DriverDelivery(msgspec.Struct, frozen=True):
    """The way in which drivers are installed on nodes.

    Attributes:
        mode: `preinstalled`, `package`, `container` or `kmm`.
        drivers: the drivers by vendor.
        module_manager: whether KMM is installed.
    """

    mode: str
    drivers: Mapping[str, VendorDriver]
    module_manager: bool = False


def find_image(node: DriverNode, vendor: str, kernel: str, driver: VendorDriver, version: str = "") -> str:
    """Return the driver image for a node and a kernel; empty if there is none.

    The image name contains the node's current operating system if the pattern does. Therefore, images for kernels of a
    different operating system release are found only if the pattern does not contain the operating system.
    """
    variables = list_variables(kernel, node.system, vendor, version or driver.version)
    return fill_pattern(driver.find_pattern(kernel), variables)


def list_images(
    nodes: Iterable[DriverNode], delivery: DriverDelivery, kernel: str, version: str = "", vendor: str = ""
) -> set[str]:
    """Return the images that the answers depend on; an empty kernel means each node's current kernel."""
    if delivery.mode not in {"container", "kmm"}:
        return set()
    return {
        image
        for node in nodes
        for name in node.vendors
        if name in delivery.drivers and (not vendor or name == vendor)
        if (image := find_image(node, name, kernel or node.kernel, delivery.drivers[name], version))
    }


def judge_kernel(node: DriverNode, kernel: str, delivery: DriverDelivery, facts: FutureFacts) -> Answer:
    """Return whether a node's cards have drivers for this kernel, as the worst answer over the vendors of the cards."""
    if kernel == node.kernel:
        return _answer(node, Works.YES, "Works", f"the node already runs {kernel}")
    if not node.vendors:
        return _answer(node, Works.YES, "Works", "the node has no cards that need a driver")
    return find_worst(_judge_vendors(node, kernel, delivery, facts)) or _answer(node, Works.YES, "Works", "")


def _judge_vendors(node: DriverNode, kernel: str, delivery: DriverDelivery, facts: FutureFacts) -> Iterator[Answer]:
    for vendor in node.vendors:
        driver = delivery.drivers.get(vendor)
        if delivery.mode == "preinstalled":
            text = f"the {vendor} driver is preinstalled on the hosts, so the supported kernels are unknown"
            yield _answer(node, Works.UNKNOWN, "HostsOwnDriver", text)
        elif driver is None:
            text = f"accelkit_driver_vendors does not contain {vendor}"
            yield _answer(node, Works.UNKNOWN, "NotConfigured", text)
        elif delivery.mode == "package":
            yield judge_package(node, Aspect.KERNEL, facts, f"for {kernel}")
        elif delivery.mode == "kmm" and not delivery.module_manager:
            yield _answer(node, Works.NO, "NoModuleManager", "KMM is not installed in the cluster")
        else:
            yield judge_image(node, Aspect.KERNEL, vendor, kernel, driver, facts=facts)


def judge_package(node: DriverNode, aspect: Aspect, facts: FutureFacts, what: str) -> Answer:
    """Return the answer based on the node's package manager."""
    found = facts.packages.get(node.name)
    if found is None:
        return answer(
            node.name, aspect, Works.UNKNOWN, "PackageUnknown", f"the host was not queried for packages {what}"
        )
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
    facts: FutureFacts,
    version: str = "",
) -> Answer:
    """Return the answer based on whether an image, or a build for it, exists."""
    image = find_image(node, vendor, kernel, driver, version)
    if not image:
        text = f"no mapping or pattern specifies an image of the {vendor} driver for {kernel}"
        return answer(node.name, aspect, Works.NO, "NoDriverImage", text)
    if needs_system(driver.find_pattern(kernel)) and not node.system.id:
        return answer(
            node.name,
            aspect,
            Works.UNKNOWN,
            "SystemUnknown",
            f"{image} depends on the operating system, which is unknown",
        )
    present = facts.images.get(image)
    if present is None:
        return answer(node.name, aspect, Works.UNKNOWN, "ImageUnknown", f"it is unknown whether {image} exists")
    if present:
        return answer(node.name, aspect, Works.YES, "Works", f"{image} exists")
    if driver.build is not None:
        return answer(node.name, aspect, Works.UNKNOWN, "ImageWillBeBuilt", f"{image} is missing but can be built")
    return answer(node.name, aspect, Works.NO, "ImageMissing", f"{image} is not in its registry")


def _answer(node: DriverNode, works: Works, reason: DriverReason, evidence: str) -> Answer:
    return answer(node.name, Aspect.KERNEL, works, reason, evidence)
