"""Routes to a volume that is written once and read by many pods, in the order in which they are tried.

Hardly any driver provides one volume that is both ReadWriteOnce and ReadOnlyMany: the attacher refuses such CSI
volumes, and most provisioners refuse the claim. So only the claim has both modes. Its volume is written as
ReadWriteOnce, and handed over as ReadOnlyMany.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from accelkit.cachecontroller.cluster_view import ClaimReference, ClusterView, ObjectName, ObservedObject
from accelkit.cachecontroller.filling.objects import CLASSES, DRIVERS, EVENTS, SNAPSHOT_CLASSES, read_annotation
from accelkit.model.keys import CACHE_REFUSED_ANNOTATION

ONCE: Final = "ReadWriteOnce"
READ_MANY: Final = "ReadOnlyMany"
WRITE_MANY: Final = "ReadWriteMany"
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_FAILED: Final = "ProvisioningFailed"
# Words in a provisioner's permanent refusals: unsupported modes, clones and snapshots. Other errors may be temporary,
# for example those about quotas and unavailable services.
_NEVER: Final = re.compile(
    r"access ?mode|volume ?capabilit|only support|does not support|not supported|unsupported|MULTI_NODE|ReadOnlyMany"
    r"|ReadWriteMany|VolumeContentSource must be provided|multi node",
    re.IGNORECASE,
)


class Copy(StrEnum):
    """How a second volume is created from a filled one."""

    NONE = ""
    CLONE = "clone"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Route:
    """A route to a volume that pods may read.

    Attributes:
        name: name of the route, a part of the names of its objects.
        claim: access modes of the claim that is filled.
        write: access modes with which its volume is written.
        give: access modes with which the volume, or its copy, is handed over.
        copy: how the copy is made.
    """

    name: str
    claim: tuple[str, ...]
    write: tuple[str, ...]
    give: tuple[str, ...]
    copy: Copy = Copy.NONE

    @property
    def step(self) -> str:
        """Name of the filled volume; all copies are made from one volume."""
        return self.name if self.copy is Copy.NONE else "once"


@dataclass(frozen=True, slots=True)
class Storage:
    """A StorageClass, and the abilities of its driver.

    Attributes:
        name: name of the class.
        provisioner: provisioner of its volumes.
        csi: whether it belongs to a CSI driver. Other provisioners ignore the source of a claim and create empty
            volumes.
        snapshot_class: snapshot class of the driver; empty if there is none.
    """

    name: str
    provisioner: str
    csi: bool
    snapshot_class: str


def find_storage(class_name: str, cluster: ClusterView) -> Storage | None:
    """Return a StorageClass, or the cluster's default if no name is given; None if it does not exist."""
    classes = {name.name: observed for name, observed in cluster.list_all(CLASSES)}
    name = class_name or _find_default(classes.items())
    if name not in classes:
        return None
    provisioner = classes[name].provisioner
    snapshot_classes = sorted(
        each.name for each, observed in cluster.list_all(SNAPSHOT_CLASSES) if observed.driver == provisioner
    )
    csi = cluster.find(ObjectName(DRIVERS, provisioner)) is not None
    return Storage(name, provisioner, csi, snapshot_classes[0] if csi and snapshot_classes else "")


def _find_default(classes: Iterable[tuple[str, ObservedObject]]) -> str:
    # The newest one, as the API server chooses.
    default = [
        (observed.metadata.creation_timestamp or "", name)
        for name, observed in classes
        if read_annotation(observed, _DEFAULT_CLASS) == "true"
    ]
    return max(default)[1] if default else ""


def list_routes(access_modes: tuple[str, ...], storage: Storage) -> list[Route]:
    """Return the routes to volumes with these access modes, best first.

    Args:
        access_modes: the access modes of the cache; empty for ReadWriteOnce.
        storage: the StorageClass.
    """
    modes = tuple(dict.fromkeys(access_modes)) or (ONCE,)
    if READ_MANY not in modes:
        return [Route("fill", modes, modes, modes)]
    shared = Route("shared", (WRITE_MANY,), (WRITE_MANY,), (WRITE_MANY,))
    if WRITE_MANY in modes:
        # The volume is written and read in the same mode, so nothing has to be copied.
        return [Route("fill", modes, modes, modes), shared]
    both = Route("fill", (ONCE, READ_MANY), (ONCE,), (READ_MANY,))
    copies = [Route("clone", (ONCE,), (ONCE,), (READ_MANY,), Copy.CLONE)] if storage.csi else []
    if storage.snapshot_class:
        copies.append(Route("snap", (ONCE,), (ONCE,), (READ_MANY,), Copy.SNAPSHOT))
    return [both, *copies, shared]


def find_refusal(name: ObjectName, claim: ObservedObject, cluster: ClusterView) -> tuple[str, bool]:
    """Return the last message of the provisioner about a claim without a volume, and whether it is permanent.

    Permanent refusals are also stored in an annotation of the claim, because Events expire.
    """
    if kept := read_annotation(claim, CACHE_REFUSED_ANNOTATION):
        return kept, True
    events = [
        observed
        for _, observed in cluster.list_all(EVENTS)
        if observed.reason == _FAILED and _is_about(observed.involved_object, name, claim)
    ]
    final = [observed.message for observed in events if _NEVER.search(observed.message)]
    if final:
        return final[-1], True
    return (events[-1].message, False) if events else ("", False)


def _is_about(involved: ClaimReference, name: ObjectName, claim: ObservedObject) -> bool:
    return (
        involved.get("kind") == name.kind.kind
        and (involved.get("namespace"), involved.get("name")) == (name.namespace, name.name)
        and involved.get("uid") == claim.metadata.uid
    )
