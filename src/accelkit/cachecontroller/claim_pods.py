"""Of pods, what their volumes are of; nothing else of them is kept."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.cachecontroller.delivery import ClaimPod
from accelkit.model.object_meta import ObjectMeta

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class _ClaimVolume(msgspec.Struct, rename="camel"):
    claim_name: str = ""


class _ImageVolume(msgspec.Struct):
    reference: str = ""


class _Volume(msgspec.Struct, rename="camel"):
    persistent_volume_claim: _ClaimVolume | None = None
    image: _ImageVolume | None = None


class _PodSpec(msgspec.Struct, rename="camel"):
    volumes: list[_Volume] | None = None
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
    volumes = pod.spec.volumes or ()
    claims = frozenset(each.persistent_volume_claim.claim_name for each in volumes if each.persistent_volume_claim)
    images = frozenset(each.image.reference for each in volumes if each.image)
    if pod.status.phase in _ENDED or not (claims or images):
        return None
    meta = pod.metadata
    return ClaimPod(meta.namespace, meta.name, claims, images, pod.spec.node_name, bool(meta.deletion_timestamp))
