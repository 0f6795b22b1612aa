"""The packages of drivers on hosts, pinned to kernel and version where the user's patterns are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.settings import VendorDriver, fill_pattern, list_variables


def list_packages(
    nodes: Iterable[DriverNode], drivers: Mapping[str, VendorDriver], *, kernel: str = "", version: str = ""
) -> dict[str, tuple[str, ...]]:
    """Return the packages of each node with cards of these vendors, sorted.

    Args:
        nodes: of the cluster.
        drivers: by vendor.
        kernel: that the packages are for; empty for that which each node runs.
        version: of the driver; empty for that of each vendor.
    """
    found: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        names = set[str]()
        for vendor in node.vendors:
            driver = drivers.get(vendor, VendorDriver())
            release = kernel or node.kernel
            # Names of packages have what tags of images cannot.
            variables = list_variables(release, node.system, vendor, version or driver.version)
            variables["KERNEL_FULL_VERSION"] = release
            names |= {fill_pattern(pattern, variables) for pattern in driver.packages}
        if names:
            found[node.name] = tuple(sorted(names))
    return found
