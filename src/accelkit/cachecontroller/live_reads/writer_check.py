"""Keeps claims from pods that would write to them: what they mount is what pods of all namespaces read.

The admission policies refuse such a pod where they know of the cache. One that is older than the cache, or that came
while a claim of that name was somebody's own, has been admitted already. So a claim is made, given a volume, or made
anew only after API servers have had time to learn of the cache, and then only where the pods, read after that, have
none among them that might write: whoever comes later is refused.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, TypeAlias

from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import ClaimPod, ObjectName
from accelkit.cachecontroller.deciding.given_claims import name_pods
from accelkit.cachecontroller.deciding.grants import list_claim_names, list_grants, tell, withhold
from accelkit.cachecontroller.delivery import DeliveryPlan
from accelkit.cachecontroller.live_reads.pods import UnreadablePodError
from accelkit.gkm.conditions import Condition, ConditionType, Reason, state
from accelkit.gkm.objects import Cache, CacheStatus

ListPods: TypeAlias = Callable[[str, float], Awaitable[list[ClaimPod]]]
LookAtTaken: TypeAlias = Callable[[ObjectName], Awaitable[object]]
# The watch tells of pods that go; this is for those whose names it cannot lead to a cache.
_AGAIN_SECONDS: Final = 15.0


class WriterCheck:
    """Decides which claims may be made now.

    Args:
        seen: what the watches show.
        list_pods: returns the pods of a namespace by a list that began after a moment.
        guard_seconds: after which all API servers surely know what they were told of a cache.
        clock: seconds on a clock that never jumps.
    """

    def __init__(
        self,
        seen: ClusterState,
        list_pods: ListPods,
        guard_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seen, self._list_pods, self._guard_seconds, self._clock = seen, list_pods, guard_seconds, clock
        # By cache and namespace: of which spec, and since when no API server may think that the claim is another's.
        self._since: dict[str, dict[str, tuple[str, int, float]]] = {}

    def clear(self) -> None:
        """Forget all, since another replica writes."""
        self._since.clear()

    def forget(self, key: str) -> None:
        """Forget a cache that is gone."""
        self._since.pop(key, None)

    def observe(self, cache: Cache) -> None:
        """Take over what the API server has of a cache."""
        former, meta = self._since.get(cache.key, {}), cache.metadata
        now = self._clock()
        present = {}
        for namespace in cache.namespaces:
            known = former.get(namespace)
            if known is None or known[:2] != (meta.uid, meta.generation):
                # Another spec may name namespaces that the last one did not.
                known = (meta.uid, meta.generation, now)
            if not _leaves_alone(cache.status, namespace):
                present[namespace] = known
        self._since[cache.key] = present

    def expect(self, key: str, status: CacheStatus) -> None:
        """Be told of a status before it is written: the answer may be lost, and API servers know it all the same."""
        for namespace in status.pvc_status:
            if _leaves_alone(status, namespace):
                self._since.get(key, {}).pop(namespace, None)

    async def check(self, cache: Cache, plan: DeliveryPlan, look_at_taken: LookAtTaken) -> DeliveryPlan:
        """Return what of a plan may be carried out now, and what the namespaces of the rest are told.

        Args:
            cache: as it was decided in this pass.
            plan: of it.
            look_at_taken: reads a claim, and remembers a refusal where it is another's.

        Raises:
            ApiError: the API server did not answer.
        """
        grants = list_grants(cache, plan, self._seen)
        ready: dict[str, Condition] = {}
        wakes: list[float] = []
        for namespace in sorted({claim.namespace for claim in grants.values()}):
            claims = {claim for claim in grants.values() if claim.namespace == namespace}
            found = await self._judge(cache, namespace, claims, look_at_taken)
            if found is not None:
                condition, wake = found
                ready[namespace] = condition
                wakes.append(wake)
        if not ready:
            return plan
        withheld = {name for name, claim in grants.items() if claim.namespace in ready}
        wakes += [plan.wake_after] if plan.wake_after else []
        return replace(tell(withhold(plan, withheld), ready), wake_after=min(wakes))

    async def _judge(
        self, cache: Cache, namespace: str, claims: set[ObjectName], look_at_taken: LookAtTaken
    ) -> tuple[Condition, float] | None:
        """Return why claims wait, and after how many seconds to look again; None where they do not."""
        # Any of a cache's claims, as a pod may wait for one that is made next.
        of_users = list_claim_names(cache) | {claim.name for claim in claims}
        writers = _find_writers(self._seen.list_pods(namespace), of_users)
        if writers:
            return _say_writers(namespace, writers, of_users), _AGAIN_SECONDS
        known = self._since.get(cache.key, {}).get(namespace)
        if known is None or known[0] != cache.metadata.uid:
            # What is another's, and not shown by the watch, is read: it stays so while it is there.
            for claim in sorted(claims, key=str):
                await look_at_taken(claim)
                if (refusal := self._seen.find_refusal(claim)) is not None:
                    return state(ConditionType.READY, refusal.reason, refusal.message, holds=False), _AGAIN_SECONDS
            return _say_waiting(namespace), self._guard_seconds
        sure_at = known[2] + self._guard_seconds
        left = sure_at - self._clock()
        if left > 0:
            return _say_waiting(namespace), left
        try:
            writers = _find_writers(await self._list_pods(namespace, sure_at), of_users)
        except UnreadablePodError as exc:
            return state(ConditionType.READY, Reason.WRITABLE_POD, str(exc), holds=False), _AGAIN_SECONDS
        return (_say_writers(namespace, writers, of_users), _AGAIN_SECONDS) if writers else None


def _leaves_alone(status: CacheStatus, namespace: str) -> bool:
    """Whether admission policies let pods of a namespace write to claims with the names of a cache."""
    found = status.pvc_status.get(namespace)
    return found is not None and any(each.reason == Reason.CLAIM_EXISTS for each in found.conditions)


def _find_writers(pods: list[ClaimPod], claims: set[str]) -> list[ClaimPod]:
    return [pod for pod in pods if pod.writable & claims]


def _say_waiting(namespace: str) -> Condition:
    text = f"its claim in {namespace} is made once it is sure that no pod would write to it, which takes seconds"
    return state(ConditionType.READY, Reason.PENDING, text, holds=False)


def _say_writers(namespace: str, writers: list[ClaimPod], of_users: set[str]) -> Condition:
    claims = ", ".join(sorted({claim for pod in writers for claim in pod.writable & of_users})[:3])
    text = (
        f"no claim is made in {namespace} while pods that are there already would write to it ({claims}): "
        f"{name_pods(writers)}; delete them and create them again, or have their mounts say readOnly: true"
    )
    return state(ConditionType.READY, Reason.WRITABLE_POD, text, holds=False)
