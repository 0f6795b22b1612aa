"""The size limit of a pod that mounts caches, which bounds the processor time that the webhook needs to change the pod.

The webhook compares each volume with all containers and mounts. `reviews.py` bounds the memory.
"""

from __future__ import annotations

from typing import Final

from accelkit.cachecontroller.webhook.pods import Object, list_containers

# A pod with a cache for each of ten models is below these limits. The work grows with the product of volumes and
# mounts, and other requests wait in the meantime.
MOST_OF_CACHES: Final = 32
MOST_PARTS: Final = 2000


def describe_excess(pod: Object, of_caches: int) -> str:
    """Return why a pod is too large for the webhook to change it; empty if it is not.

    Args:
        pod: the pod before the change.
        of_caches: the number of its volumes that are kernel caches.
    """
    if of_caches > MOST_OF_CACHES:
        return f"{of_caches} volumes of the pod are of kernel caches, over the limit of {MOST_OF_CACHES}"
    containers = list_containers(pod)
    parts = len(pod["spec"].get("volumes") or []) + len(containers)
    parts += sum(len(each.get(kind) or []) for each in containers for kind in ("volumeMounts", "env"))
    if parts > MOST_PARTS:
        return (
            f"the pod has {parts} volumes, containers, mounts and variables; one that mounts a kernel cache may have "
            f"{MOST_PARTS}"
        )
    return ""
