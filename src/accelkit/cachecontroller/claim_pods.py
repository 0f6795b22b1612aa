"""Of pods, what their volumes are of; nothing else of them is kept."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.cachecontroller.delivery import ClaimPod
from accelkit.model.object_meta import ObjectMeta

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class _ClaimVolume(msgspec.Struct, rename="camel"):
    claim_name: str = ""
    read_only: bool = False


class _EphemeralVolume(msgspec.Struct):
    """Of a claim that is called POD-VOLUME; Kubernetes takes one that is there where the pod owns it."""


class _ImageVolume(msgspec.Struct):
    reference: str = ""


class _Volume(msgspec.Struct, rename="camel"):
    name: str = ""
    persistent_volume_claim: _ClaimVolume | None = None
    ephemeral: _EphemeralVolume | None = None
    image: _ImageVolume | None = None


class _Mount(msgspec.Struct, rename="camel"):
    name: str = ""
    read_only: bool = False


class _Container(msgspec.Struct, rename="camel"):
    volume_mounts: list[_Mount] | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    volumes: list[_Volume] | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None
    node_name: str = ""


class _PodStatus(msgspec.Struct):
    phase: str = ""


class SeenPod(msgspec.Struct):
    """Of a pod, what its volumes are of."""

    metadata: ObjectMeta
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


def read_claim_pod(pod: SeenPod) -> ClaimPod | None:
    """Return what a pod mounts of claims and images; None where it mounts none, or has ended."""
    meta, spec = pod.metadata, pod.spec
    volumes = spec.volumes or ()
    images = frozenset(each.image.reference for each in volumes if each.image)
    claims = frozenset(claim for each in volumes if (claim := _name_claim(pod, each)))
    if pod.status.phase in _ENDED or not (claims or images):
        return None
    containers = (*(spec.containers or ()), *(spec.init_containers or ()), *(spec.ephemeral_containers or ()))
    written = {mount.name for each in containers for mount in each.volume_mounts or () if not mount.read_only}
    writable = frozenset(
        claim for each in volumes if each.name in written and not _reads(each) and (claim := _name_claim(pod, each))
    )
    leaving = bool(meta.deletion_timestamp)
    return ClaimPod(meta.namespace, meta.name, claims, writable, images, spec.node_name, leaving)


def _name_claim(pod: SeenPod, volume: _Volume) -> str:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else ""


def _reads(volume: _Volume) -> bool:
    """Whether nobody can write by a volume, however it is mounted."""
    return volume.persistent_volume_claim is not None and volume.persistent_volume_claim.read_only
