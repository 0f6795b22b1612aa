"""Nodes whose kernel or driver is not the one that was recorded or asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.planning.plan import Problem
from accelkit.enablement.drivers.settings import VendorDriver
from accelkit.inspection.provided_driver import build_label
from accelkit.model.keys import DRIVER_KERNEL_LABEL
from accelkit.texts import shorten


def find_mismatches(nodes: Iterable[DriverNode], drivers: Mapping[str, VendorDriver]) -> Iterator[Problem]:
    """Yield what is not as it should be on nodes with cards, a node and a vendor at a time.

    What is not known is told as such (`DriverVersionUnknown`), and is not wrong.

    Args:
        nodes: of the cluster.
        drivers: what is wanted, by vendor.
    """
    for node in nodes:
        recorded = node.labels.get(DRIVER_KERNEL_LABEL)
        if recorded is not None and node.kernel and recorded != build_label(node.kernel):
            text = f"the driver was chosen for kernel {recorded}, and {node.kernel} runs"
            # What was loaded for another kernel is not loaded: nothing else is known of it.
            yield Problem("KernelDriverMismatch", text, (node.name,))
            continue
        for vendor in node.vendors:
            yield from _find_driver_problem(node, vendor, drivers.get(vendor))


def _find_driver_problem(node: DriverNode, vendor: str, wanted: VendorDriver | None) -> Iterator[Problem]:
    if wanted is None or not wanted.version:
        return
    found = node.list_drivers(vendor)
    if node.cards is None:
        yield Problem("DriverVersionUnknown", f"no agent says which driver of {vendor} runs", (node.name,), wrong=False)
    elif not found:
        yield Problem("DriverMissing", f"no card of {vendor} is usable with a driver", (node.name,))
    elif "" in found:
        yield Problem("DriverVersionUnknown", f"cards of {vendor} do not name their driver", (node.name,), wrong=False)
    elif found != (wanted.version,):
        text = f"{vendor}'s driver is {shorten(', '.join(found))}, and {wanted.version} is wanted"
        yield Problem("DriverOther", text, (node.name,))
