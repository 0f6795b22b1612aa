"""Jobs that build missing driver images, one for each kernel and vendor."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from accelkit.enablement.drivers.planning.names import MAX_NAME
from accelkit.enablement.drivers.planning.plan import PlannedSet
from accelkit.enablement.drivers.settings import VendorDriver, fill_pattern, list_variables
from accelkit.enablement.drivers.systems import System

# Paths in the Job's container.
CONTEXT: Final = "/workspace"
CONTAINERFILE: Final = f"{CONTEXT}/Containerfile"
_DIGEST: Final = 8


class PlannedBuild(msgspec.Struct, frozen=True):
    """A Job that builds an image.

    Attributes:
        name: the name of the ConfigMap with the Containerfile, which depends on the image and the text. The Job's name
            begins with this name and ends with the start of a hash of all data that the Job's pods depend on.
        image: the image that the Job pushes.
        builder: the builder image.
        args: the arguments of the builder, with variables replaced by their values.
        containerfile: the text of the Containerfile.
        push_secret: name of a Secret; empty for none.
        entitlement_secret: name of a Secret; empty for none.
        node_selector: labels of the nodes on which the Job may run; empty for any node.
    """

    name: str
    image: str
    builder: str
    args: tuple[str, ...]
    containerfile: str
    push_secret: str
    entitlement_secret: str
    node_selector: Mapping[str, str] = {}


def plan_builds(
    sets: Iterable[PlannedSet],
    drivers: Mapping[str, VendorDriver],
    images: Mapping[str, bool | None],
    systems: Mapping[str, System],
) -> tuple[PlannedBuild, ...]:
    """Return the Jobs for the images that are known to be missing, but not for images whose existence is unknown.

    Args:
        sets: the planned DaemonSets.
        drivers: the drivers by vendor.
        images: whether each image exists.
        systems: the operating systems of the nodes, by node.
    """
    found = list[PlannedBuild]()
    for planned in sets:
        driver = drivers[planned.vendor]
        if images.get(planned.image) is not False or driver.build is None:
            continue
        system = systems.get(planned.nodes[0], System()) if planned.nodes else System()
        variables = {
            **list_variables(planned.kernel, system, planned.vendor, planned.version),
            # A build needs the exact kernel release, not the modified release that is used in tags.
            "KERNEL_FULL_VERSION": planned.kernel,
            "IMAGE": planned.image,
            "CONTAINERFILE": CONTAINERFILE,
            "CONTEXT": CONTEXT,
        }
        args = tuple(fill_pattern(each, variables) for each in driver.build.args)
        whole = f"{planned.image}\0{driver.build.containerfile}"
        digest = hashlib.sha256(whole.encode()).hexdigest()[:_DIGEST]
        name = f"{planned.name[: MAX_NAME - 2 * (_DIGEST + 1)].rstrip('-.')}-{digest}"
        found.append(
            PlannedBuild(
                name,
                planned.image,
                driver.build.builder,
                args,
                driver.build.containerfile,
                driver.build.push_secret,
                driver.build.entitlement_secret,
                driver.build.node_selector,
            )
        )
    return tuple(found)
