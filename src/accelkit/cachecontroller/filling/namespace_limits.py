"""Limits on the Jobs and DaemonSets in accelkit's namespace for one namespace's caches, which no quota counts there.

ClusterGKMCaches are not counted, because administrators create them.
"""

from __future__ import annotations

from typing import Final

from accelkit.cachecontroller.cluster_view import JOBS, ClusterView, Kind, ObservedObject
from accelkit.cachecontroller.filling.objects import DAEMON_SETS, Target, read_annotation
from accelkit.cachecontroller.filling.progress import has_ended
from accelkit.model.keys import CACHE_KEY_ANNOTATION

# Each Job has a pod and a volume, and each DaemonSet a pod on every node that it may run on.
MOST_JOBS: Final = 4
MOST_PREFETCHES: Final = 8


def find_wait_for_job(target: Target, home: str, cluster: ClusterView) -> str:
    """Return why no further Job may currently start for a cache; empty if one may.

    Args:
        target: target of the Job.
        home: accelkit's own namespace.
        cluster: current state.
    """
    namespace = target.cache.metadata.namespace
    running = [each for each in _list_of_namespace(JOBS, namespace, home, cluster) if not has_ended(each)]
    if not namespace or len(running) < MOST_JOBS:
        return ""
    return f"{len(running)} Jobs of caches of namespace {namespace} run; this one waits for its turn"


def find_excess_of_prefetches(target: Target, home: str, cluster: ClusterView) -> str:
    """Return why no further DaemonSet may pull an image for a cache; empty if one may.

    Args:
        target: target of the DaemonSet.
        home: accelkit's own namespace.
        cluster: current state.
    """
    namespace = target.cache.metadata.namespace
    # DaemonSets of the same cache have a former digest and will be deleted.
    there = [
        each
        for each in _list_of_namespace(DAEMON_SETS, namespace, home, cluster)
        if read_annotation(each, CACHE_KEY_ANNOTATION) != target.cache.key
    ]
    if not namespace or len(there) < MOST_PREFETCHES:
        return ""
    return (
        f"nodes pull {len(there)} images for caches of namespace {namespace}, which is the limit; the pod that mounts "
        f"this one pulls it. Delete a cache with delivery image, or take another delivery"
    )


def _list_of_namespace(kind: Kind, namespace: str, home: str, cluster: ClusterView) -> list[ObservedObject]:
    # Tenants cannot write in accelkit's namespace, so annotations are trusted.
    return [
        observed
        for name, observed in cluster.list_all(kind)
        if name.namespace == home
        and observed.metadata.deletion_timestamp is None
        and read_annotation(observed, CACHE_KEY_ANNOTATION).partition("/")[0] == namespace
    ]
