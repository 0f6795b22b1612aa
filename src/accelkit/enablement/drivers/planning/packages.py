"""Packages of drivers on hosts, pinned to kernel and version if the user's patterns are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.settings import VendorDriver, fill_pattern, list_variables


def list_packages(
    nodes: Iterable[DriverNode], drivers: Mapping[str, VendorDriver], *, kernel: str = "", version: str = ""
) -> dict[str, tuple[str, ...]]:
    """Return the packages of each node with cards of these vendors, sorted.

    Args:
        nodes: the nodes of the cluster.
        drivers: the drivers by vendor.
        kernel: the kernel for the packages; empty for the running kernel of each node.
        version: the version of the driver; empty for that of each vendor's settings.
    """
    found: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        names = set[str]()
        for vendor in node.vendors:
            driver = drivers.get(vendor, VendorDriver())
            release = kernel or node.kernel
            # Names of packages allow characters that tags of images do not.
            variables = list_variables(release, node.system, vendor, version or driver.version)
            variables["KERNEL_FULL_VERSION"] = release
            names |= {fill_pattern(pattern, variables) for pattern in driver.packages}
        if names:
            found[node.name] = tuple(sorted(names))
    return found
