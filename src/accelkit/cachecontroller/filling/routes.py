"""Routes for creating a volume that one Job writes and many pods read, in order of preference.

Few drivers support volumes that are both ReadWriteOnce and ReadOnlyMany. The attacher rejects such CSI volumes, and
most provisioners reject such claims. Therefore, only the claim has both modes. The volume is ReadWriteOnce while a Job
fills it, and ReadOnlyMany after the handover.
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
# Phrases in permanent errors from provisioners, which report unsupported modes, clones and snapshots. Other errors, for
# example exceeded quotas and unavailable services, may be temporary.
_NEVER: Final = re.compile(
    r"access ?mode|volume ?capabilit|only support|does not support|not supported|unsupported|MULTI_NODE|ReadOnlyMany"
    r"|ReadWriteMany|VolumeContentSource must be provided|multi node",
    re.IGNORECASE,
)


class Copy(StrEnum):
    """Method for copying a filled volume."""

    NONE = ""
    CLONE = "clone"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Route:
    """Route for creating a volume that pods can read.

    Attributes:
        name: name of the route, used in the names of its objects.
        claim: access modes of the claim that is being filled.
        write: access modes of the volume while it is being filled.
        give: access modes of the volume, or of its copy, after the handover.
        copy: method for creating the copy.
    """

    name: str
    claim: tuple[str, ...]
    write: tuple[str, ...]
    give: tuple[str, ...]
    copy: Copy = Copy.NONE

    @property
    def step(self) -> str:
        """Name of the step that fills the volume. All routes with a copy share this step."""
        return self.name if self.copy is Copy.NONE else "once"


@dataclass(frozen=True, slots=True)
class Storage:
    """StorageClass and the capabilities of its driver.

    Attributes:
        name: name of the class.
        provisioner: provisioner of its volumes.
        csi: whether the provisioner is a CSI driver. Other provisioners ignore the data source of a claim and create
            empty volumes.
        snapshot_class: snapshot class of the driver; empty if the driver has no snapshot class.
    """

    name: str
    provisioner: str
    csi: bool
    snapshot_class: str


def find_storage(class_name: str, cluster: ClusterView) -> Storage | None:
    """Return a StorageClass, or the default StorageClass if the name is empty; None if the class does not exist."""
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
    # Return the newest default class, as the API server does.
    default = [
        (observed.metadata.creation_timestamp or "", name)
        for name, observed in classes
        if read_annotation(observed, _DEFAULT_CLASS) == "true"
    ]
    return max(default)[1] if default else ""


def list_routes(access_modes: tuple[str, ...], storage: Storage) -> list[Route]:
    """Return the routes for volumes with these access modes, in order of preference.

    Args:
        access_modes: access modes of the cache; empty for ReadWriteOnce.
        storage: StorageClass of the volumes.
    """
    modes = tuple(dict.fromkeys(access_modes)) or (ONCE,)
    if READ_MANY not in modes:
        return [Route("fill", modes, modes, modes)]
    shared = Route("shared", (WRITE_MANY,), (WRITE_MANY,), (WRITE_MANY,))
    if WRITE_MANY in modes:
        # The volume is written and read with the same mode, so no copy is needed.
        return [Route("fill", modes, modes, modes), shared]
    both = Route("fill", (ONCE, READ_MANY), (ONCE,), (READ_MANY,))
    copies = [Route("clone", (ONCE,), (ONCE,), (READ_MANY,), Copy.CLONE)] if storage.csi else []
    if storage.snapshot_class:
        copies.append(Route("snap", (ONCE,), (ONCE,), (READ_MANY,), Copy.SNAPSHOT))
    return [both, *copies, shared]


def find_refusal(name: ObjectName, claim: ObservedObject, cluster: ClusterView) -> tuple[str, bool]:
    """Return the provisioner's last error for a claim without a volume, and whether the error is permanent.

    Permanent errors are also stored in an annotation of the claim, because Events expire.
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
