"""Which former digests pods still use: those stay in the status, and so on the nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from accelkit.cachecontroller.cluster_view import ClusterView
from accelkit.cachecontroller.delivery import DeliveryMode
from accelkit.gkm.objects import Cache

# A pod may have been given the claim of a digest a moment ago, and not be seen yet.
GRACE_SECONDS: Final = 60.0


class FormerDigests:
    """Since when nobody was seen to use each; a controller that starts anew waits anew."""

    def __init__(self) -> None:
        self._unused: dict[str, dict[str, float]] = {}

    def forget(self, key: str) -> None:
        """Forget a cache that is gone."""
        self._unused.pop(key, None)

    def select(
        self, cache: Cache, shown: ClusterView, now: float, modes: Iterable[DeliveryMode]
    ) -> tuple[list[str], float]:
        """Return the former digests that stay, and after how many seconds to look again; 0 for never.

        Args:
            cache: with all former digests in its status.
            shown: pods, and the reports of nodes.
            now: seconds on a clock that never jumps.
            modes: ways of delivery, all of them: pods keep what they got when it was another one.
        """
        reported = {
            digest
            for report in shown.list_reports(cache)
            for digest, entry in report.status.caches.get(cache.metadata.name, {}).items()
            if entry.pods
        }
        used = {digest for mode in modes for digest, pods in mode.list_users(cache, shown).items() if pods}
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
