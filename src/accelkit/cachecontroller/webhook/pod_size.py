"""Size limits for pods that mount caches, which bound the CPU time of the webhook.

The webhook compares each volume with all containers and mounts. `reviews.py` limits the memory usage.
"""

from __future__ import annotations

from typing import Final

from accelkit.cachecontroller.webhook.pods import Object, list_containers

# A pod with a cache for each of ten models is within these limits. The CPU time is proportional to the number of
# volumes times the number of mounts, and other requests are blocked during this time.
MOST_OF_CACHES: Final = 32
MOST_PARTS: Final = 2000


def describe_excess(pod: Object, of_caches: int) -> str:
    """Return the reason why a pod is too large for the webhook; empty if it is within the limits.

    Args:
        pod: pod before the mutation.
        of_caches: number of volumes with kernel caches.
    """
    if of_caches > MOST_OF_CACHES:
        return f"the pod has {of_caches} volumes with kernel caches, over the limit of {MOST_OF_CACHES}"
    containers = list_containers(pod)
    parts = len(pod["spec"].get("volumes") or []) + len(containers)
    parts += sum(len(each.get(kind) or []) for each in containers for kind in ("volumeMounts", "env"))
    if parts > MOST_PARTS:
        return (
            f"the pod has {parts} volumes, containers, mounts and variables, over the limit of "
            f"{MOST_PARTS} for pods with kernel caches"
        )
    return ""
