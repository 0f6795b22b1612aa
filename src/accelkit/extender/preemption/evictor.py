"""Evictions for a pod of higher priority for which kube-scheduler finds no victims.

kube-scheduler finds no victims if a node has enough free amounts in total, but not on a single card. Only the leader
evicts pods, and only after kube-scheduler has rejected the pod. The leader reads the pods of the node and all
disruption budgets again, sends each eviction as a dry run, claims the cards for the pod, and then evicts the victims.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final

from prometheus_client import Counter

from accelkit.errors import ApiError, PodGoneError
from accelkit.extender.bindings import read_pod
from accelkit.extender.preemption.claims import Claims
from accelkit.extender.preemption.pace import Pace
from accelkit.extender.preemption.planning import Planner, PreemptionPlan
from accelkit.extender.preemption.refusals import Refusals, is_waiting
from accelkit.kube.client import ApiClient
from accelkit.kube.disruptions.budgets import read_disruption_budgets
from accelkit.kube.disruptions.evictions import evict, list_evictable_pods
from accelkit.kube.events import Events, ObjectReference
from accelkit.ledger.feed import LedgerFeed, Pending
from accelkit.ledger.ledger import Ledger
from accelkit.logs import Facts, RepeatLog
from accelkit.model.pod import PodRef
from accelkit.placement.changes.victims import rank_victims
from accelkit.placement.misfit import MisfitError
from accelkit.placement.policies import AnyPolicy

log = logging.getLogger(__name__)

_TURN_SECONDS: Final = 0.5
_RESULTS: Final = ("evicted", "refused", "failed")


class Evictor:
    """Component that evicts other pods for the pods that filter rejected on all nodes.

    Args:
        api: an open client.
        ledger: the ledger with the claims.
        feed: the feed with the waiting pods and the priorities of other pods.
        policy: the policy that ranks cards if the pod does not name one.
        events: the event recorder.
        refusals: the pods that filter rejected.
        leads: a function that returns whether this replica may evict and bind now.
        evictions: the counter of evictions, by `result`.
        clock: a function that returns the seconds of a monotonic clock.
        wall_clock: a function that returns the seconds since 1970.
    """

    def __init__(
        self,
        api: ApiClient,
        ledger: Ledger,
        feed: LedgerFeed,
        policy: AnyPolicy,
        *,
        events: Events,
        refusals: Refusals,
        leads: Callable[[], bool],
        evictions: Counter,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._api, self._ledger, self._feed = api, ledger, feed
        self._refusals, self._leads, self._evictions = refusals, leads, evictions
        self._planner = Planner(ledger, feed, policy, wall_clock)
        self._claims = Claims(ledger, feed, policy, clock)
        self._pace = Pace(clock)
        self._events = events
        self._repeats = RepeatLog(log)
        for result in _RESULTS:
            evictions.labels(result)

    async def run(self) -> None:
        """Handle rejected pods until cancelled."""
        while True:
            await asyncio.sleep(_TURN_SECONDS)
            try:
                await self.run_once()
            except ApiError as exc:
                self._repeats.warn("api", f"cannot evict pods, will retry: {exc}")
            except Exception:
                # An error with one pod must not stop the service.
                log.exception("cannot evict pods")

    async def run_once(self) -> None:
        """Review the claims, and handle at most one rejected pod.

        Raises:
            ApiError: the API server rejected a request or did not respond.
        """
        leads = self._leads()
        for uid in self._claims.review(leads=leads):
            log.warning(Facts("claim released", uid=uid, why="the pod was not bound to the claimed cards in time"))
        if not leads:
            return
        for uid in self._refusals.list_due(self._feed.pending, self._ledger):
            pending = self._feed.pending[uid]
            if self._is_beyond_quota(pending):
                # kube-scheduler calls filter again after pods of the namespace release shares.
                self._refusals.discard(uid)
                self._ledger.namespaces.note_refused(pending.pod.ref.namespace)
            elif self._pace.may_try(uid):
                self._refusals.note_turn(uid)
                await self._handle(pending)
                return

    async def _handle(self, pending: Pending) -> None:
        uid, evicted = pending.pod.ref.uid, False
        try:
            plan = await self._find_plan(pending)
            if plan is not None and plan.victims and self._pace.may_evict(len(plan.victims)):
                evicted = await self._carry_out(pending, plan)
        finally:
            self._pace.note_tried(uid, evicted=evicted)

    def _is_beyond_quota(self, pending: Pending) -> bool:
        request, ref = pending.request, pending.pod.ref
        return request is not None and self._ledger.judge_quota(ref.namespace, request) is not None

    async def _find_plan(self, pending: Pending) -> PreemptionPlan | None:
        """Return the best plan for the current state in the API server; None if no plan is possible."""
        plans = await self._planner.list_plans(pending, self._refusals.list_nodes(pending.pod.ref.uid))
        if not plans or not plans[0].victims:
            return None
        budgets = await read_disruption_budgets(self._api)
        checked = list[PreemptionPlan]()
        for plan in plans:
            pods = await list_evictable_pods(self._api, plan.node)
            if (found := await self._planner.check(pending, plan.node, pods, budgets)) is not None:
                checked.append(found)
        return min(checked, key=lambda plan: (rank_victims(plan.victims), plan.node), default=None)

    async def _carry_out(self, pending: Pending, plan: PreemptionPlan) -> bool:
        """Claim the cards and evict the victims; return whether any pod was evicted."""
        ref = pending.pod.ref
        if not await self._still_waits(pending):
            return False
        for victim in plan.pods:
            if not await self._may_evict(victim, ref):
                return False
        # The state may have changed. No other task runs between this check and the claim.
        if not self._leads() or ref.uid not in self._feed.pending or self._ledger.find_holding(ref.uid) is not None:
            return False
        try:
            self._claims.make(pending, plan.node, {*plan.leaving, *(pod.uid for pod in plan.pods)})
        except MisfitError:
            return False
        gone, complete = await self._evict(plan.pods, ref)
        if not complete:
            # The pod does not fit without the eviction of the remaining victims.
            self._claims.drop(ref.uid)
        await self._report(pending, plan.node, gone)
        return bool(gone)

    async def _evict(self, victims: Sequence[PodRef], preemptor: PodRef) -> tuple[list[PodRef], bool]:
        """Evict pods until an eviction fails or this replica is no longer the leader.

        Return the evicted pods, and whether all evictions succeeded or may have succeeded.
        """
        gone = list[PodRef]()
        for victim in victims:
            if not self._leads():
                return gone, False
            try:
                await self._send_eviction(victim)
            except ApiError as exc:
                self._note_failure(victim, preemptor, exc)
                # If the response was lost, the eviction may have succeeded. The claim then expires if the pod still
                # does not fit.
                return gone, exc.unanswered and victim == victims[-1]
            self._evictions.labels("evicted").inc()
            gone.append(victim)
            self._pace.note_evicted()
        return gone, True

    async def _still_waits(self, pending: Pending) -> bool:
        """Return whether the pod in the API server still waits with the same priority."""
        try:
            pod = await read_pod(self._api, pending.pod.ref)
        except PodGoneError:
            return False
        now = None if pod.spec.node_name else self._feed.read_pending(pod)
        return now is not None and is_waiting(now) and now.pod.priority == pending.pod.priority

    async def _may_evict(self, victim: PodRef, preemptor: PodRef) -> bool:
        """Return whether the API server would evict a pod, according to a dry run."""
        try:
            await self._send_eviction(victim, dry_run=True)
        except ApiError as exc:
            self._note_failure(victim, preemptor, exc)
            return False
        return True

    async def _send_eviction(self, victim: PodRef, *, dry_run: bool = False) -> None:
        """Evict a pod; do nothing if it was already deleted.

        Raises:
            ApiError: the API server rejected the eviction or did not respond.
        """
        try:
            await evict(self._api, victim, dry_run=dry_run)
        except ApiError as exc:
            if not exc.not_found:
                raise

    def _note_failure(self, victim: PodRef, preemptor: PodRef, failure: ApiError) -> None:
        refused = failure.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.CONFLICT}
        self._evictions.labels("refused" if refused else "failed").inc()
        self._repeats.warn((preemptor.uid, victim.uid), f"cannot evict pod {victim} for pod {preemptor}: {failure}")

    async def _report(self, pending: Pending, node: str, gone: list[PodRef]) -> None:
        ref, priority = pending.pod.ref, pending.pod.priority
        if not gone:
            return
        log.info(Facts("evicted", pods=[str(pod) for pod in gone], node=node, preemptor=str(ref), priority=priority))
        # A user with access to the events of one namespace must not see names from another namespace.
        for pod in gone:
            sentence = f"Evicted from node {node} so that pod {ref.uid} of priority {priority} gets a card"
            await self._events.record(ObjectReference("Pod", pod.name, pod.namespace, pod.uid), "Preempted", sentence)
        sentence = f"Evicted {len(gone)} pod{'s' if len(gone) > 1 else ''} of lower priority from node {node}"
        await self._events.record(ObjectReference("Pod", ref.name, ref.namespace, ref.uid), "Preempting", sentence)
