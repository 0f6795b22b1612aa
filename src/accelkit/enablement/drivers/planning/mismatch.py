"""Detection of nodes whose kernel or driver differs from the recorded or desired version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.planning.plan import Problem
from accelkit.enablement.drivers.settings import VendorDriver
from accelkit.inspection.provided_driver import build_label
from accelkit.model.keys import DRIVER_KERNEL_LABEL
from accelkit.texts import shorten


def find_mismatches(nodes: Iterable[DriverNode], drivers: Mapping[str, VendorDriver]) -> Iterator[Problem]:
    """Yield the mismatches for each vendor of cards on each node.

    An unknown version is reported as `DriverVersionUnknown`, which is not an error.

    Args:
        nodes: the nodes of the cluster.
        drivers: the desired drivers, by vendor.
    """
    for node in nodes:
        recorded = node.labels.get(DRIVER_KERNEL_LABEL)
        if recorded is not None and node.kernel and recorded != build_label(node.kernel):
            text = f"the driver was chosen for kernel {recorded}, but the node runs {node.kernel}"
            # The driver for the recorded kernel is not loaded, so the state of the driver is unknown.
            yield Problem("KernelDriverMismatch", text, (node.name,))
            continue
        for vendor in node.vendors:
            yield from _find_driver_problem(node, vendor, drivers.get(vendor))


def _find_driver_problem(node: DriverNode, vendor: str, desired: VendorDriver | None) -> Iterator[Problem]:
    if desired is None or not desired.version:
        return
    found = node.list_drivers(vendor)
    if node.cards is None:
        text = f"no node agent reports the version of the {vendor} driver"
        yield Problem("DriverVersionUnknown", text, (node.name,), wrong=False)
    elif not found:
        yield Problem("DriverMissing", f"no {vendor} card has a usable driver", (node.name,))
    elif "" in found:
        text = f"some {vendor} cards do not report their driver version"
        yield Problem("DriverVersionUnknown", text, (node.name,), wrong=False)
    elif found != (desired.version,):
        text = f"the {vendor} driver has version {shorten(', '.join(found))}, but {desired.version} is required"
        yield Problem("DriverOther", text, (node.name,))
