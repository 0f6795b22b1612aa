"""Limits on the Jobs and DaemonSets for one namespace's caches. They run in accelkit's namespace, without a quota.

The limits do not apply to ClusterGKMCaches, because only administrators create them.
"""

from __future__ import annotations

from typing import Final

from accelkit.cachecontroller.cluster_view import JOBS, ClusterView, Kind, ObservedObject
from accelkit.cachecontroller.filling.objects import DAEMON_SETS, Target, read_annotation
from accelkit.cachecontroller.filling.progress import has_ended
from accelkit.model.keys import CACHE_KEY_ANNOTATION

# Each Job creates a pod and a volume. Each DaemonSet creates a pod on every matching node.
MOST_JOBS: Final = 4
MOST_PREFETCHES: Final = 8


def find_wait_for_job(target: Target, home: str, cluster: ClusterView) -> str:
    """Return the reason why a Job for a cache must wait; empty if it may start now.

    Args:
        target: target of the Job.
        home: accelkit's own namespace.
        cluster: current state.
    """
    namespace = target.cache.metadata.namespace
    running = [each for each in _list_of_namespace(JOBS, namespace, home, cluster) if not has_ended(each)]
    if not namespace or len(running) < MOST_JOBS:
        return ""
    return f"the Job waits, because {len(running)} Jobs for caches of namespace {namespace} are running"


def find_excess_of_prefetches(target: Target, home: str, cluster: ClusterView) -> str:
    """Return the reason why no DaemonSet may be created for a cache; empty if it may be created.

    Args:
        target: target of the DaemonSet.
        home: accelkit's own namespace.
        cluster: current state.
    """
    namespace = target.cache.metadata.namespace
    # Other DaemonSets of the same cache pull a previous digest, and will be deleted.
    there = [
        each
        for each in _list_of_namespace(DAEMON_SETS, namespace, home, cluster)
        if read_annotation(each, CACHE_KEY_ANNOTATION) != target.cache.key
    ]
    if not namespace or len(there) < MOST_PREFETCHES:
        return ""
    return (
        f"cannot pull the image in advance: nodes pull {len(there)} images for caches of namespace {namespace}, which "
        f"is the limit. Delete a cache with delivery image, or use another delivery"
    )


def _list_of_namespace(kind: Kind, namespace: str, home: str, cluster: ClusterView) -> list[ObservedObject]:
    # Tenants cannot write to accelkit's namespace, so annotations are trusted.
    return [
        observed
        for name, observed in cluster.list_all(kind)
        if name.namespace == home
        and observed.metadata.deletion_timestamp is None
        and read_annotation(observed, CACHE_KEY_ANNOTATION).partition("/")[0] == namespace
    ]
