"""Ways to a volume that is written once and then read by many, in the order in which they are tried.

Hardly any driver gives one volume that is ReadWriteOnce and ReadOnlyMany: the attacher refuses such volumes of CSI
drivers, and most provisioners refuse the claim. So a claim that has both is only asked for; its volume is written as
ReadWriteOnce, and given away as ReadOnlyMany.
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
# Words of provisioners for what they will never do: modes, clones and snapshots that they do not support. What else
# they say may pass: a quota, a service that is down.
_NEVER: Final = re.compile(
    r"access ?mode|volume ?capabilit|only support|does not support|not supported|unsupported|MULTI_NODE|ReadOnlyMany"
    r"|ReadWriteMany|VolumeContentSource must be provided|multi node",
    re.IGNORECASE,
)


class Copy(StrEnum):
    """How a second volume comes from a filled one."""

    NONE = ""
    CLONE = "clone"
    SNAPSHOT = "snapshot"


@dataclass(frozen=True, slots=True)
class Route:
    """A way to a volume that pods may read.

    Attributes:
        name: of it, part of the names of what it makes.
        claim: access modes of the claim that is filled.
        write: those with which its volume is written.
        give: those with which the volume, or its copy, is given away.
        copy: how the copy is made.
    """

    name: str
    claim: tuple[str, ...]
    write: tuple[str, ...]
    give: tuple[str, ...]
    copy: Copy = Copy.NONE

    @property
    def step(self) -> str:
        """What is filled; all copies are made of one volume."""
        return self.name if self.copy is Copy.NONE else "once"


@dataclass(frozen=True, slots=True)
class Storage:
    """A StorageClass, and what its driver may be asked for.

    Attributes:
        name: of the class.
        provisioner: of its volumes.
        csi: whether it is a CSI driver's; others ignore what a claim is to be a copy of, and make an empty volume.
        snapshot_class: of the driver; empty where there is none.
    """

    name: str
    provisioner: str
    csi: bool
    snapshot_class: str


def find_storage(asked: str, shown: ClusterView) -> Storage | None:
    """Return a StorageClass, or the cluster's default one; None where it is not there."""
    classes = {name.name: seen for name, seen in shown.list_all(CLASSES)}
    name = asked or _find_default(classes.items())
    if name not in classes:
        return None
    provisioner = classes[name].provisioner
    snapshot_classes = sorted(
        each.name for each, seen in shown.list_all(SNAPSHOT_CLASSES) if seen.driver == provisioner
    )
    csi = shown.find(ObjectName(DRIVERS, provisioner)) is not None
    return Storage(name, provisioner, csi, snapshot_classes[0] if csi and snapshot_classes else "")


def _find_default(classes: Iterable[tuple[str, ObservedObject]]) -> str:
    # As the API server chooses: the newest.
    default = [
        (seen.metadata.creation_timestamp or "", name)
        for name, seen in classes
        if read_annotation(seen, _DEFAULT_CLASS) == "true"
    ]
    return max(default)[1] if default else ""


def list_routes(asked: tuple[str, ...], storage: Storage) -> list[Route]:
    """Return the ways to volumes with these access modes, best first.

    Args:
        asked: the access modes of the cache; empty for ReadWriteOnce.
        storage: whose volumes they are.
    """
    modes = tuple(dict.fromkeys(asked)) or (ONCE,)
    if READ_MANY not in modes:
        return [Route("fill", modes, modes, modes)]
    shared = Route("shared", (WRITE_MANY,), (WRITE_MANY,), (WRITE_MANY,))
    if WRITE_MANY in modes:
        # Written and read through the same mode, so nothing has to be copied.
        return [Route("fill", modes, modes, modes), shared]
    both = Route("fill", (ONCE, READ_MANY), (ONCE,), (READ_MANY,))
    copies = [Route("clone", (ONCE,), (ONCE,), (READ_MANY,), Copy.CLONE)] if storage.csi else []
    if storage.snapshot_class:
        copies.append(Route("snap", (ONCE,), (ONCE,), (READ_MANY,), Copy.SNAPSHOT))
    return [both, *copies, shared]


def find_refusal(name: ObjectName, claim: ObservedObject, shown: ClusterView) -> tuple[str, bool]:
    """Return the last words of the provisioner on a claim that has no volume, and whether they are final.

    Final words are also found on the claim itself, where they are kept, since Events pass.
    """
    if kept := read_annotation(claim, CACHE_REFUSED_ANNOTATION):
        return kept, True
    told = [
        seen
        for _, seen in shown.list_all(EVENTS)
        if seen.reason == _FAILED and _is_about(seen.involved_object, name, claim)
    ]
    final = [seen.message for seen in told if _NEVER.search(seen.message)]
    if final:
        return final[-1], True
    return (told[-1].message, False) if told else ("", False)


def _is_about(involved: ClaimReference, name: ObjectName, claim: ObservedObject) -> bool:
    return (
        involved.get("kind") == name.kind.kind
        and (involved.get("namespace"), involved.get("name")) == (name.namespace, name.name)
        and involved.get("uid") == claim.metadata.uid
    )
