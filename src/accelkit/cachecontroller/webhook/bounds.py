"""How large a pod may be that mounts caches: each of its volumes is looked up among all containers and mounts."""

from __future__ import annotations

from typing import Final

from accelkit.cachecontroller.webhook.pods import Object, list_containers

# Pods with one of each of ten models have room; what a pod may have beyond is many times the work, and others wait.
MOST_OF_CACHES: Final = 32
MOST_PARTS: Final = 2000


def find_excess(pod: Object, of_caches: int) -> str:
    """Return why a pod is too large to be changed; empty where it is not.

    Args:
        pod: as it came.
        of_caches: how many of its volumes are of caches.
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
