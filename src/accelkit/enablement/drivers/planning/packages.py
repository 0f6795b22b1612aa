"""Driver packages on hosts, pinned to the kernel and the version if the user's patterns contain these variables."""

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
        kernel: the kernel for which packages are listed; empty for each node's running kernel.
        version: the driver version; empty for the version in each vendor's settings.
    """
    found: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        names = set[str]()
        for vendor in node.vendors:
            driver = drivers.get(vendor, VendorDriver())
            release = kernel or node.kernel
            # Package names may contain characters that are invalid in image tags.
            variables = list_variables(release, node.system, vendor, version or driver.version)
            variables["KERNEL_FULL_VERSION"] = release
            names |= {fill_pattern(pattern, variables) for pattern in driver.packages}
        if names:
            found[node.name] = tuple(sorted(names))
    return found
