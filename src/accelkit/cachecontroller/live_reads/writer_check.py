"""Check that delays a claim while pods would write to it, because pods in other namespaces read the same files.

Admission policies reject pods that would write to an existing cache. However, a pod may be older than the cache, or may
have been created while a user's claim had the name. Therefore, a claim is created, or bound to a volume, under two
conditions: all API servers have had time to receive the cache, and a later list of the pods does not contain a writer.
The policies reject writers that are created after this list.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeAlias

from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import ClaimPod, ObjectName
from accelkit.cachecontroller.deciding.given_claims import name_pods
from accelkit.cachecontroller.deciding.grants import list_claim_names, list_grants, set_ready, withhold
from accelkit.cachecontroller.delivery import DeliveryPlan
from accelkit.cachecontroller.live_reads.pods import UnreadablePodError
from accelkit.gkm.conditions import Condition, ConditionType, Reason, state
from accelkit.gkm.objects import Cache, CacheStatus

ListPods: TypeAlias = Callable[[str, float], Awaitable[list[ClaimPod]]]
CheckTaken: TypeAlias = Callable[[ObjectName], Awaitable[object]]
# The deletion of a pod usually starts a pass. The interval is needed for pods that mount claims which cannot be found
# by the name of a cache.
_AGAIN_SECONDS: Final = 15.0


class WriterCheck:
    """Check that determines which claims of a plan may be created now.

    Args:
        cluster: state of the cluster.
        list_pods: function that returns the pods of a namespace from a list request that started after a given time.
        guard_seconds: time after which all API servers are assumed to have received a cache.
        clock: function that returns the seconds of a monotonic clock.
    """

    def __init__(
        self,
        cluster: ClusterState,
        list_pods: ListPods,
        guard_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._list_pods, self._guard_seconds, self._clock = cluster, list_pods, guard_seconds, clock
        # For each cache and namespace: UID and generation of the cache, and the time at which `guard_seconds` starts.
        self._since: dict[str, dict[str, tuple[str, int, float]]] = {}

    def clear(self) -> None:
        """Discard the records of all caches because another replica is now the leader."""
        self._since.clear()

    def discard(self, key: str) -> None:
        """Discard the record of a deleted cache."""
        self._since.pop(key, None)

    def observe(self, cache: Cache) -> None:
        """Record a cache that the API server returned."""
        former, meta = self._since.get(cache.key, {}), cache.metadata
        now = self._clock()
        present = {}
        for namespace in cache.namespaces:
            known = former.get(namespace)
            if known is None or known[:2] != (meta.uid, meta.generation):
                # A changed spec may contain new namespaces.
                known = (meta.uid, meta.generation, now)
            if not _leaves_alone(cache.status, namespace):
                present[namespace] = known
        self._since[cache.key] = present

    def expect(self, key: str, status: CacheStatus) -> None:
        """Record a status before it is written, because the write may succeed even if the response is lost."""
        for namespace in status.pvc_status:
            if _leaves_alone(status, namespace):
                self._since.get(key, {}).pop(namespace, None)

    async def check(self, cache: Cache, plan: DeliveryPlan, check_taken: CheckTaken) -> DeliveryPlan:
        """Return the part of a plan that may be applied now, and set Ready conditions for the other namespaces.

        Args:
            cache: cache with the decisions of this pass.
            plan: plan of the cache.
            check_taken: function that reads a claim and records an error if the claim has another owner.

        Raises:
            ApiError: the API server did not respond.
        """
        grants = list_grants(cache, plan, self._cluster)
        ready: dict[str, Condition] = {}
        wakes: list[float] = []
        for namespace in sorted({claim.namespace for claim in grants.values()}):
            claims = {claim for claim in grants.values() if claim.namespace == namespace}
            found = await self._judge(cache, namespace, claims, check_taken)
            if found is not None:
                condition, wake = found
                ready[namespace] = condition
                wakes.append(wake)
        if not ready:
            return plan
        withheld = {name for name, claim in grants.items() if claim.namespace in ready}
        wakes += [plan.wake_after] if plan.wake_after else []
        return replace(set_ready(withhold(plan, withheld), ready), wake_after=min(wakes))

    async def _judge(
        self, cache: Cache, namespace: str, claims: set[ObjectName], check_taken: CheckTaken
    ) -> tuple[Condition, float] | None:
        """Return why the creation of claims is delayed, and the seconds until the next pass; None if not delayed."""
        # Check all claim names of the cache, because a pod may wait for a claim that will be created later.
        of_users = list_claim_names(cache) | {claim.name for claim in claims}
        writers = _find_writers(self._cluster.list_pods(namespace), of_users)
        if writers:
            return _report_writers(namespace, writers, of_users), _AGAIN_SECONDS
        known = self._since.get(cache.key, {}).get(namespace)
        if known is None or known[0] != cache.metadata.uid:
            # A claim of another owner, which the watch does not report, blocks the name as long as it exists.
            for claim in sorted(claims, key=str):
                await check_taken(claim)
                if (refusal := self._cluster.find_refusal(claim)) is not None:
                    return state(ConditionType.READY, refusal.reason, refusal.message, holds=False), _AGAIN_SECONDS
            return _report_waiting(namespace), self._guard_seconds
        sure_at = known[2] + self._guard_seconds
        left = sure_at - self._clock()
        if left > 0:
            return _report_waiting(namespace), left
        try:
            writers = _find_writers(await self._list_pods(namespace, sure_at), of_users)
        except UnreadablePodError as exc:
            return state(ConditionType.READY, Reason.WRITABLE_POD, str(exc), holds=False), _AGAIN_SECONDS
        return (_report_writers(namespace, writers, of_users), _AGAIN_SECONDS) if writers else None


def _leaves_alone(status: CacheStatus, namespace: str) -> bool:
    """Return whether admission policies allow pods of a namespace to write to claims with the names of a cache."""
    found = status.pvc_status.get(namespace)
    return found is not None and any(each.reason == Reason.CLAIM_EXISTS for each in found.conditions)


def _find_writers(pods: list[ClaimPod], claims: set[str]) -> list[ClaimPod]:
    return [pod for pod in pods if pod.writable & claims]


def _report_waiting(namespace: str) -> Condition:
    text = f"the controller is checking that no pod in {namespace} would write to the claim; this takes a few seconds"
    return state(ConditionType.READY, Reason.PENDING, text, holds=False)


def _report_writers(namespace: str, writers: list[ClaimPod], of_users: set[str]) -> Condition:
    claims = ", ".join(sorted({claim for pod in writers for claim in pod.writable & of_users})[:3])
    text = (
        f"cannot create a claim in {namespace}: existing pods would write to it ({claims}): "
        f"{name_pods(writers)}. Recreate these pods, or set readOnly: true in their mounts"
    )
    return state(ConditionType.READY, Reason.WRITABLE_POD, text, holds=False)
