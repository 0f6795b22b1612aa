"""Patches that restore claim labels, and that cause Kubernetes to process claims without a volume again.

This module performs no I/O.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from accelkit.cachecontroller.cluster_view import ClusterView, ObjectName, ObservedObject
from accelkit.cachecontroller.deciding.volume_manifests import annotate
from accelkit.cachecontroller.delivery import Patch
from accelkit.gkm import names
from accelkit.gkm.objects import Cache
from accelkit.model.keys import CACHE_VOLUME_ANNOTATION

# Intervals at which a claim without a volume is touched. Each pair contains the maximum age of the claim and the
# interval, in seconds.
_TOUCHES: Final = ((30.0, 2.0), (330.0, 20.0), (float("inf"), 300.0))
# Age after which the status reports that the claim has no volume.
_OVERDUE_SECONDS: Final = 60.0


def repair_marks(cache: Cache, name: ObjectName, digest: str, claim: ObservedObject, touch: str) -> Patch | None:
    """Return the patch that restores accelkit's labels on a claim, and sets the annotation `touch`."""
    labels, annotations = names.build_labels(cache.key, digest), annotate(cache, digest)
    if touch and claim.status.get("phase") != "Bound":
        # The value is arbitrary. Kubernetes processes a changed claim immediately, but retries a waiting claim only
        # every 15 seconds, even after a conflict between its own writes.
        annotations[CACHE_VOLUME_ANNOTATION] = touch
    have = claim.metadata
    metadata: dict[str, Any] = {"labels": labels, "annotations": annotations}
    if have.owner_references:
        # Claims must not have owners, because a pod that owns a claim can mount it as a generic ephemeral volume.
        metadata["ownerReferences"] = None
    elif labels.items() <= (have.labels or {}).items() and annotations.items() <= (have.annotations or {}).items():
        return None
    return Patch(name, {"metadata": metadata}, have.uid)


def choose_touch(claim: ObservedObject, cluster: ClusterView) -> tuple[int, float]:
    """Return how many times a claim of this age should have been touched, and the current interval in seconds."""
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
    """Return whether a claim has waited for its volume for so long that the status must report this."""
    return _measure_age(claim, cluster) > _OVERDUE_SECONDS


def _measure_age(claim: ObservedObject, cluster: ClusterView) -> float:
    try:
        created = datetime.fromisoformat(claim.metadata.creation_timestamp or "").timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, cluster.now - created)
