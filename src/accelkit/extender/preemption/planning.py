"""Plans that specify the node on which a pod gets its cards, and the victims on that node.

This module performs no I/O.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from accelkit.extender.simulation.event_loop_share import EventLoopShare
from accelkit.kube.disruptions.budgets import DisruptionBudgets
from accelkit.kube.views.pod import EvictablePod
from accelkit.ledger.feed import LedgerFeed, Pending
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.situations import list_candidates, take_situation
from accelkit.model.pod import PodRef
from accelkit.placement.budget import Budget
from accelkit.placement.changes.victims import MOST_STEPS, STEPS_PER_NODE, Candidate, rank_victims, search_victims
from accelkit.placement.policies import AnyPolicy
from accelkit.vendors.pod_reading import CardPod

# Maximum number of nodes whose pods are read again; the nodes with the lowest cost are selected.
MOST_READ: Final = 8
# Maximum number of searches for other victims if a disruption budget does not allow the eviction of all victims.
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class PreemptionPlan:
    """Plan for evictions on a node.

    Attributes:
        victims: the pods to evict; empty if it is enough to wait for pods that are already terminating.
        leaving: the UIDs of the pods that are already terminating.
    """

    node: str
    victims: tuple[Candidate, ...]
    leaving: frozenset[str]

    @property
    def pods(self) -> list[PodRef]:
        """The pods to evict, in descending order of priority."""
        return [each.holder.pod for each in self.victims]


class Planner:
    """Planner for one pod at a time.

    Args:
        ledger: the ledger.
        feed: the feed with the priorities of pods.
        policy: the policy that ranks cards if the pod does not name one.
        wall_clock: a function that returns the seconds since 1970. It is used to ignore pods whose termination is
            overdue.
    """

    def __init__(
        self, ledger: Ledger, feed: LedgerFeed, policy: AnyPolicy, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._ledger, self._feed, self._policy, self._wall_clock = ledger, feed, policy, wall_clock

    async def list_plans(self, pending: Pending, nodes: Iterable[str]) -> list[PreemptionPlan]:
        """Return the best plans for the current state, best first; a plan without victims is returned alone."""
        budget, event_loop, found = Budget(MOST_STEPS), EventLoopShare(), list[PreemptionPlan]()
        for node in nodes:
            if budget.is_spent():
                break
            if (plan := await self._plan(pending, node, budget, event_loop)) is not None:
                if not plan.victims:
                    return [plan]
                found.append(plan)
            await event_loop.rest()
        return sorted(found, key=lambda plan: (rank_victims(plan.victims), plan.node))[:MOST_READ]

    async def check(
        self, pending: Pending, node: str, pods: Collection[EvictablePod], budgets: DisruptionBudgets
    ) -> PreemptionPlan | None:
        """Return a plan with victims that may be evicted; None if no such plan is possible.

        Args:
            pending: the pod that gets the cards.
            node: the node.
            pods: the current pods of the node.
            budgets: the current disruption budgets.
        """
        by_uid = {each.ref.uid: each for each in pods}
        event_loop, may_go = EventLoopShare(), set[str]()
        for uid, each in by_uid.items():
            if _may_go(each, pending.pod.priority, budgets):
                may_go.add(uid)
            await event_loop.rest()
        now = self._wall_clock()
        leaving = frozenset(uid for uid, each in by_uid.items() if each.is_leaving(now))
        for _ in range(_ROUNDS):
            plan = await self._plan(pending, node, Budget(STEPS_PER_NODE), event_loop, may_go=may_go, leaving=leaving)
            if plan is None:
                return None
            excess = budgets.find_excess((pod, by_uid[pod.uid].labels) for pod in plan.pods)
            if not excess:
                return plan
            may_go -= excess
            await event_loop.rest()
        return None

    async def _plan(
        self,
        pending: Pending,
        node: str,
        budget: Budget,
        event_loop: EventLoopShare,
        *,
        may_go: Collection[str] | None = None,
        leaving: frozenset[str] = frozenset(),
    ) -> PreemptionPlan | None:
        entry = self._ledger.find_node(node)
        if entry is None or entry.refusal is not None or pending.request is None:
            return None
        bound = self._feed.list_bound(node)
        now = self._wall_clock()
        gone = leaving | {each.ref.uid for each in bound if each.is_leaving(now)}
        request = self._ledger.resolve(pending.request)
        situation = take_situation(entry, request)

        def is_allowed(pod: CardPod) -> bool:
            below = pod.priority < pending.pod.priority and pod.ref.uid not in leaving
            return below and (may_go is None or pod.ref.uid in may_go)

        candidates = list_candidates(situation, bound, is_allowed)
        with budget.lend(STEPS_PER_NODE) as trial:
            search = search_victims(situation, request, self._policy, candidates, trial, gone=gone)
            victims = await event_loop.finish(search)
        return None if victims is None else PreemptionPlan(node, tuple(victims), gone)


def _may_go(pod: EvictablePod, priority: int, budgets: DisruptionBudgets) -> bool:
    return pod.priority < priority and not pod.static and not pod.leaving and not budgets.protects(pod.ref, pod.labels)
