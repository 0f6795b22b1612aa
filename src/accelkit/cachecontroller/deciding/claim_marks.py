"""What keeps a claim of ours as it was made, and has Kubernetes look at one that waits for its volume; pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from accelkit.cachecontroller.cluster_view import ClusterView, ObjectName, ObservedObject
from accelkit.cachecontroller.deciding.volume_manifests import annotate
from accelkit.cachecontroller.delivery import Patch
from accelkit.gkm import names
from accelkit.gkm.objects import Cache
from accelkit.model.keys import CACHE_VOLUME_ANNOTATION

# How often a claim that waits for its volume is touched: every so many seconds until it is so old, then more seldom.
_TOUCHES: Final = ((30.0, 2.0), (330.0, 20.0), (float("inf"), 300.0))
# After which people are told that it waits.
_OVERDUE_SECONDS: Final = 60.0


def mend_marks(cache: Cache, name: ObjectName, digest: str, claim: ObservedObject, touch: str) -> Patch | None:
    """Return what puts our labels on a claim where they are not; `touch` once Kubernetes knows its volume."""
    labels, annotations = names.build_labels(cache.key, digest), annotate(cache, digest)
    if touch and claim.status.get("phase") != "Bound":
        # Says nothing that the claim does not say: but a claim that changes is looked at by Kubernetes at once, and one
        # that waits for its volume every 15 seconds, also where two of its own writes met.
        annotations[CACHE_VOLUME_ANNOTATION] = touch
    have = claim.metadata
    metadata: dict[str, Any] = {"labels": labels, "annotations": annotations}
    if have.owner_references:
        # A pod that owns a claim may mount it by a generic ephemeral volume; we give it no owner.
        metadata["ownerReferences"] = None
    elif labels.items() <= (have.labels or {}).items() and annotations.items() <= (have.annotations or {}).items():
        return None
    return Patch(name, {"metadata": metadata}, have.uid)


def choose_touch(claim: ObservedObject, shown: ClusterView) -> tuple[int, float]:
    """Return how often a claim of its age has been touched, and after how many seconds it is again."""
    left, count = _measure_age(claim, shown), 0
    began = 0.0
    for until, pause in _TOUCHES:
        if left < until - began:
            return count + int(left / pause), pause
        count += int((until - began) / pause)
        left -= until - began
        began = until
    raise AssertionError


def is_overdue(claim: ObservedObject, shown: ClusterView) -> bool:
    """Return whether people are to be told that a claim waits for its volume."""
    return _measure_age(claim, shown) > _OVERDUE_SECONDS


def _measure_age(claim: ObservedObject, shown: ClusterView) -> float:
    try:
        created = datetime.fromisoformat(claim.metadata.creation_timestamp or "").timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, shown.now - created)
