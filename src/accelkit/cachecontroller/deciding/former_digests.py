"""Previous digests that pods still use, and that are therefore kept in the status and on the nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from accelkit.cachecontroller.cluster_view import ClusterView
from accelkit.cachecontroller.delivery import DeliveryMode
from accelkit.gkm.objects import Cache

# A pod that was just admitted may use a digest before the watch reports the pod.
GRACE_SECONDS: Final = 60.0


class FormerDigests:
    """Record of the time at which each previous digest became unused. A restart of the controller resets the record."""

    def __init__(self) -> None:
        self._unused: dict[str, dict[str, float]] = {}

    def discard(self, key: str) -> None:
        """Discard the record of a deleted cache."""
        self._unused.pop(key, None)

    def select(
        self, cache: Cache, cluster: ClusterView, now: float, modes: Iterable[DeliveryMode]
    ) -> tuple[list[str], float]:
        """Return the previous digests to keep, and the seconds until the next pass; 0 if no pass is needed.

        Args:
            cache: cache whose status contains all previous digests.
            cluster: source of pods and node reports.
            now: monotonic time in seconds.
            modes: all delivery modes, because pods continue to use the files of a previous delivery mode.
        """
        reported = {
            digest
            for report in cluster.list_reports(cache)
            for digest, entry in report.status.caches.get(cache.metadata.name, {}).items()
            if entry.pods
        }
        used = {digest for mode in modes for digest, pods in mode.list_users(cache, cluster).items() if pods}
        former = self._unused.pop(cache.key, {})
        unused: dict[str, float] = {}
        kept = []
        for digest in cache.status.previous_digests:
            if digest in reported or digest in used:
                kept.append(digest)
                continue
            since = former.get(digest, now)
            if now - since < GRACE_SECONDS:
                kept.append(digest)
                unused[digest] = since
        if unused:
            self._unused[cache.key] = unused
        return kept, max(0.1, min(unused.values(), default=now) + GRACE_SECONDS - now) if unused else 0.0
