"""Patches that restore the labels of claims, and that make Kubernetes process claims without a volume; no I/O."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from accelkit.cachecontroller.cluster_view import ClusterView, ObjectName, ObservedObject
from accelkit.cachecontroller.deciding.volume_manifests import annotate
from accelkit.cachecontroller.delivery import Patch
from accelkit.gkm import names
from accelkit.gkm.objects import Cache
from accelkit.model.keys import CACHE_VOLUME_ANNOTATION

# How often a claim without a volume is touched: up to an age in seconds, the interval in seconds.
_TOUCHES: Final = ((30.0, 2.0), (330.0, 20.0), (float("inf"), 300.0))
# Age after which the status reports that the claim has no volume.
_OVERDUE_SECONDS: Final = 60.0


def repair_marks(cache: Cache, name: ObjectName, digest: str, claim: ObservedObject, touch: str) -> Patch | None:
    """Return the patch that restores accelkit's labels on a claim; `touch` is set once Kubernetes has its volume."""
    labels, annotations = names.build_labels(cache.key, digest), annotate(cache, digest)
    if touch and claim.status.get("phase") != "Bound":
        # The annotation has no meaning of its own. Kubernetes processes a changed claim at once, but a waiting claim
        # only every 15 seconds, even after a conflict between two of its own writes.
        annotations[CACHE_VOLUME_ANNOTATION] = touch
    have = claim.metadata
    metadata: dict[str, Any] = {"labels": labels, "annotations": annotations}
    if have.owner_references:
        # A pod that owns a claim may mount it through a generic ephemeral volume, so claims must not have owners.
        metadata["ownerReferences"] = None
    elif labels.items() <= (have.labels or {}).items() and annotations.items() <= (have.annotations or {}).items():
        return None
    return Patch(name, {"metadata": metadata}, have.uid)


def choose_touch(claim: ObservedObject, cluster: ClusterView) -> tuple[int, float]:
    """Return how often a claim of this age has been touched, and after how many seconds it is touched again."""
    left, count = _measure_age(claim, cluster), 0
    began = 0.0
    for until, pause in _TOUCHES:
        if left < until - began:
            return count + int(left / pause), pause
        count += int((until - began) / pause)
        left -= until - began
        began = until
    raise AssertionError


def is_overdue(claim: ObservedObject, cluster: ClusterView) -> bool:
    """Return whether the status must report that a claim has no volume."""
    return _measure_age(claim, cluster) > _OVERDUE_SECONDS


def _measure_age(claim: ObservedObject, cluster: ClusterView) -> float:
    try:
        created = datetime.fromisoformat(claim.metadata.creation_timestamp or "").timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, cluster.now - created)
