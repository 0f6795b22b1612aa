"""Evicts pods for one of higher priority where kube-scheduler finds no victims: the node has enough, but no card has.

Only the leader does, after kube-scheduler has refused the pod. It reads the pods of the node and all disruption budgets
anew, has the API server try every eviction without doing it, keeps the cards for the pod, and then evicts.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from prometheus_client import Counter

from accelkit.errors import ApiError, PodGoneError
from accelkit.extender.bindings import read_pod
from accelkit.extender.preemption.claims import Claims
from accelkit.extender.preemption.pace import Pace
from accelkit.extender.preemption.planning import Plan, Planner
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
    """Looks after the pods that filter refused everywhere.

    Args:
        api: an open client.
        ledger: where cards are kept for them.
        feed: knows the pods that wait, and the priorities of the others.
        policy: ranks cards where the pod does not say.
        events: where they are written.
        refusals: the pods that filter refused.
        leads: returns whether this replica may evict and bind now.
        evictions: counts them, by `result`.
        clock: seconds on a clock that never jumps.
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
    ) -> None:
        self._api, self._ledger, self._feed = api, ledger, feed
        self._refusals, self._leads, self._evictions = refusals, leads, evictions
        self._planner = Planner(ledger, feed, policy)
        self._claims = Claims(ledger, feed, policy, clock)
        self._pace = Pace(clock)
        self._events = events
        self._repeats = RepeatLog(log)
        for result in _RESULTS:
            evictions.labels(result)

    async def run(self) -> None:
        """Look after them until cancelled."""
        while True:
            await asyncio.sleep(_TURN_SECONDS)
            try:
                await self.look_once()
            except ApiError as exc:
                self._repeats.warn("api", f"nobody is evicted, tried again: {exc}")
            except Exception:
                # What is wrong with one pod must not end the service.
                log.exception("nobody is evicted")

    async def look_once(self) -> None:
        """Review what is kept, and look after at most one pod.

        Raises:
            ApiError: the API server refused, or did not answer.
        """
        leads = self._leads()
        for uid in self._claims.review(leads=leads):
            log.warning(Facts("given up", uid=uid, why="the pod was not bound in time to the cards kept for it"))
        if not leads:
            return
        for uid in self._refusals.list_due(self._feed.pending, self._ledger):
            if self._pace.may_try(uid):
                await self._look_after(self._feed.pending[uid])
                return

    async def _look_after(self, pending: Pending) -> None:
        uid, evicted = pending.pod.ref.uid, False
        try:
            plan = await self._find_plan(pending)
            if plan is not None and plan.victims and self._pace.may_evict(len(plan.victims)):
                evicted = await self._carry_out(pending, plan)
        finally:
            self._pace.note_tried(uid, evicted=evicted)

    async def _find_plan(self, pending: Pending) -> Plan | None:
        """Return the best plan by what the API server says now; None where there is none."""
        plans = await self._planner.list_plans(pending, self._refusals.list_nodes(pending.pod.ref.uid))
        if not plans or not plans[0].victims:
            return None
        budgets = await read_disruption_budgets(self._api)
        checked = list[Plan]()
        for plan in plans:
            pods = await list_evictable_pods(self._api, plan.node)
            if (found := self._planner.check(pending, plan.node, pods, budgets)) is not None:
                checked.append(found)
        return min(checked, key=lambda plan: (rank_victims(plan.victims), plan.node), default=None)

    async def _carry_out(self, pending: Pending, plan: Plan) -> bool:
        """Evict, and keep the cards; return whether any pod was evicted."""
        ref = pending.pod.ref
        if not await self._still_waits(pending):
            return False
        for victim in plan.pods:
            if not await self._try_eviction(victim, ref, dry_run=True):
                return False
        # Meanwhile things went on: from here to the claim there is no other turn.
        if not self._leads() or ref.uid not in self._feed.pending or self._ledger.find_holding(ref.uid) is not None:
            return False
        try:
            self._claims.make(pending, plan.node, {*plan.leaving, *(pod.uid for pod in plan.pods)})
        except MisfitError:
            return False
        gone = list[PodRef]()
        for victim in plan.pods:
            if not await self._try_eviction(victim, ref):
                break
            gone.append(victim)
            self._pace.note_evicted()
        if len(gone) < len(plan.pods):
            # The others would have to leave too.
            self._claims.drop(ref.uid)
        await self._tell(pending, plan.node, gone)
        return bool(gone)

    async def _still_waits(self, pending: Pending) -> bool:
        """Return whether the pod is as we know it, asked of the API server."""
        try:
            pod = await read_pod(self._api, pending.pod.ref)
        except PodGoneError:
            return False
        now = None if pod.spec.node_name else self._feed.read_pending(pod)
        return now is not None and is_waiting(now) and now.pod.priority == pending.pod.priority

    async def _try_eviction(self, victim: PodRef, preemptor: PodRef, *, dry_run: bool = False) -> bool:
        try:
            await evict(self._api, victim, dry_run=dry_run)
        except ApiError as exc:
            if exc.not_found:
                # Gone already, by whomever.
                return True
            refused = exc.status in {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.CONFLICT}
            self._evictions.labels("refused" if refused else "failed").inc()
            self._repeats.warn((preemptor.uid, victim.uid), f"pod {victim} is not evicted for {preemptor}: {exc}")
            return False
        if not dry_run:
            self._evictions.labels("evicted").inc()
        return True

    async def _tell(self, pending: Pending, node: str, gone: list[PodRef]) -> None:
        ref, priority = pending.pod.ref, pending.pod.priority
        if not gone:
            return
        log.info(Facts("evicted", pods=[str(pod) for pod in gone], node=node, preemptor=str(ref), priority=priority))
        # Who may read events of one namespace learns no names of another.
        for pod in gone:
            sentence = f"Evicted from node {node}, so that pod {ref.uid} of priority {priority} gets a card there"
            await self._events.record(ObjectReference("Pod", pod.name, pod.namespace, pod.uid), "Preempted", sentence)
        sentence = f"{len(gone)} pod{'s' if len(gone) > 1 else ''} of lower priority evicted from node {node} for it"
        await self._events.record(ObjectReference("Pod", ref.name, ref.namespace, ref.uid), "Preempting", sentence)
