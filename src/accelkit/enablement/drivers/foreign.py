"""Drivers that other systems load. For these cards, accelkit does not install a second driver."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

import msgspec

from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.planning.plan import Problem
from accelkit.enablement.ownership.evidence import OwnerState
from accelkit.enablement.ownership.owners import ANY_VENDOR
from accelkit.enablement.ownership.survey import survey_owners
from accelkit.kube.client import ApiClient
from accelkit.model.keys import DRIVER_VENDOR_LABEL_PREFIX

# The name of the system that loads the driver, by node and vendor.
ForeignDrivers = Mapping[str, Mapping[str, str]]


async def find_foreign_drivers(api: ApiClient) -> ForeignDrivers:
    """Return the drivers that other systems load, for all nodes.

    Raises:
        ApiError: the API server did not respond, or denied access to nodes.
    """
    survey = await survey_owners(api)
    return {
        node: {each.vendor: each.title for each in owners if each.state is OwnerState.OWNER and each.drives}
        for node, owners in survey.owners.items()
    }


def leave_out(
    nodes: Iterable[DriverNode], foreign: ForeignDrivers, vendors: Collection[str]
) -> tuple[list[DriverNode], list[Problem]]:
    """Return the nodes with only the vendors whose drivers accelkit installs, and a problem for each other driver.

    If a node has a label for accelkit's driver for a vendor, the label takes precedence.

    Args:
        nodes: the nodes of the cluster.
        foreign: drivers that other systems load.
        vendors: vendors whose drivers are installed by accelkit.
    """
    kept: list[DriverNode] = []
    left: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for node in nodes:
        own = []
        for vendor in node.vendors:
            by = foreign.get(node.name, {})
            title = by.get(vendor) or by.get(ANY_VENDOR)
            if title is None or vendor not in vendors or f"{DRIVER_VENDOR_LABEL_PREFIX}{vendor}" in node.labels:
                own.append(vendor)
            else:
                left[title, vendor].append(node.name)
        kept.append(msgspec.structs.replace(node, vendors=tuple(own)))
    problems = [
        Problem("DriverOwned", f"{title} loads the driver of {vendor} cards", tuple(sorted(names)), wrong=False)
        for (title, vendor), names in sorted(left.items())
    ]
    return kept, problems
