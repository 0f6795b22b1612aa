"""Manifests of claims and volumes for delivery `node`."""

from __future__ import annotations

from typing import Any, Final

from accelkit.cachecontroller.cluster_view import ObjectName
from accelkit.gkm import names
from accelkit.gkm.objects import Cache
from accelkit.model.keys import CACHE_DIGEST_ANNOTATION, CACHE_KEY_ANNOTATION

MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany")
_MIB: Final = 1 << 20


def build_volume(cache: Cache, claim: ObjectName, path: str, digest: str, uid: str) -> dict[str, Any]:
    """Return the PersistentVolume for the claim with this UID. Its path is the same on all nodes."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": names.name_volume(cache.key, claim.namespace, digest),
            "labels": names.build_labels(cache.key, digest),
            "annotations": annotate(cache, digest),
        },
        "spec": {
            "capacity": {"storage": _size(cache)},
            "accessModes": list(MODES),
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "",
            "volumeMode": "Filesystem",
            "hostPath": {"path": path, "type": "Directory"},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": uid,
            },
        },
    }


def build_claim(cache: Cache, claim: ObjectName, digest: str = "") -> dict[str, Any]:
    """Return the PersistentVolumeClaim, which only the volume of this cache and digest can satisfy."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim.name,
            "namespace": claim.namespace,
            "labels": names.build_labels(cache.key, digest),
            "annotations": annotate(cache, digest),
        },
        "spec": {
            "accessModes": list(cache.spec.access_modes) or ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeMode": "Filesystem",
            "volumeName": names.name_volume(cache.key, claim.namespace, digest),
            "resources": {"requests": {"storage": _size(cache)}},
        },
    }


def annotate(cache: Cache, digest: str) -> dict[str, str]:
    """Return the annotations for the objects that belong to a cache or to one of its digests."""
    return {CACHE_KEY_ANNOTATION: cache.key, **({CACHE_DIGEST_ANNOTATION: digest} if digest else {})}


def _size(cache: Cache) -> str:
    return f"{max(1, -(-cache.status.cache_bytes // _MIB))}Mi"
