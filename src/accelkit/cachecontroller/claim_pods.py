"""Claims and images that pods mount. Other pod fields are discarded."""

from __future__ import annotations

import msgspec

from accelkit.cachecontroller.cluster_view import ClaimPod
from accelkit.model.object_meta import ObjectIdentity
from accelkit.model.pod import ENDED_PHASES


class _ClaimVolume(msgspec.Struct, rename="camel"):
    claim_name: str = ""
    read_only: bool = False


class _EphemeralVolume(msgspec.Struct):
    """Generic ephemeral volume, whose claim is named POD-VOLUME and is owned by the pod."""


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


class _Ended(msgspec.Struct, rename="camel"):
    exit_code: int = 0


class _ContainerState(msgspec.Struct):
    terminated: _Ended | None = None


class _ContainerStatus(msgspec.Struct, rename="camel"):
    state: _ContainerState | None = None
    last_state: _ContainerState | None = None


class _PodStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    container_statuses: list[_ContainerStatus] | None = None


class _PodMeta(ObjectIdentity, rename="camel"):
    deletion_timestamp: str | None = None


class ObservedPod(msgspec.Struct):
    """Pod with only the fields that describe its volumes."""

    metadata: _PodMeta
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


def trim_pod(pod: ObservedPod) -> None:
    """Remove the fields that `read_claim_pod` does not use, because a pod may have ten thousand mounts."""
    volumes = [each for each in pod.spec.volumes or () if each.image or _name_claim(pod, each)]
    pod.spec.containers, pod.spec.init_containers, pod.spec.ephemeral_containers = (
        _list_written(pod, volumes),
        None,
        None,
    )
    pod.spec.volumes = volumes or None


def read_claim_pod(pod: ObservedPod) -> ClaimPod | None:
    """Return the claims and images that a pod mounts; None if the pod mounts no claims or images, or has terminated."""
    meta, spec = pod.metadata, pod.spec
    volumes = spec.volumes or ()
    images = frozenset(each.image.reference for each in volumes if each.image)
    claims = frozenset(claim for each in volumes if (claim := _name_claim(pod, each)))
    if pod.status.phase in ENDED_PHASES or not (claims or images):
        return None
    written = _find_written(spec)
    writable = frozenset(
        claim for each in volumes if each.name in written and not _reads(each) and (claim := _name_claim(pod, each))
    )
    leaving = bool(meta.deletion_timestamp)
    ended = _list_exit_codes(pod.status)
    return ClaimPod(meta.namespace, meta.name, claims, writable, images, spec.node_name, leaving, ended)


def _list_exit_codes(status: _PodStatus) -> frozenset[int]:
    states = (state for each in status.container_statuses or () for state in (each.state, each.last_state))
    return frozenset(state.terminated.exit_code for state in states if state is not None and state.terminated)


def _list_written(pod: ObservedPod, volumes: list[_Volume]) -> list[_Container] | None:
    named = _find_written(pod.spec) & {each.name for each in volumes}
    return [_Container([_Mount(each) for each in sorted(named)])] if named else None


def _find_written(spec: _PodSpec) -> set[str]:
    containers = (*(spec.containers or ()), *(spec.init_containers or ()), *(spec.ephemeral_containers or ()))
    return {mount.name for each in containers for mount in each.volume_mounts or () if not mount.read_only}


def _name_claim(pod: ObservedPod, volume: _Volume) -> str:
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else ""


def _reads(volume: _Volume) -> bool:
    """Return whether a volume is read-only, regardless of its mounts."""
    return volume.persistent_volume_claim is not None and volume.persistent_volume_claim.read_only
