"""Plans on which node a pod gets its cards, and who leaves for it; no I/O."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final

from accelkit.extender.simulation.event_loop_share import EventLoopShare
from accelkit.kube.disruptions.budgets import DisruptionBudgets
from accelkit.kube.disruptions.evictions import EvictablePod
from accelkit.ledger.feed import LedgerFeed, Pending
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.situations import list_candidates, take_situation
from accelkit.model.pod import PodRef
from accelkit.placement.budget import Budget
from accelkit.placement.changes.victims import MOST_STEPS, STEPS_PER_NODE, Candidate, rank_victims, search_victims
from accelkit.placement.policies import AnyPolicy
from accelkit.vendors.pod_reading import CardPod

# Of so many nodes, those that cost least, the pods are read anew.
MOST_READ: Final = 8
# So often others are looked for, where a budget does not allow all at once.
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """Who leaves a node.

    Attributes:
        victims: those who are evicted; none where it is enough to wait for those who leave anyway.
        leaving: UIDs of the latter.
    """

    node: str
    victims: tuple[Candidate, ...]
    leaving: frozenset[str]

    @property
    def pods(self) -> list[PodRef]:
        """Those who are evicted, the highest priority first."""
        return [each.holder.pod for each in self.victims]


class Planner:
    """Plans for one pod at a time.

    Args:
        ledger: who holds what.
        feed: knows their priorities.
        policy: ranks cards where the pod does not say.
        wall_clock: seconds since 1970: who should have left long ago is not waited for.
    """

    def __init__(
        self, ledger: Ledger, feed: LedgerFeed, policy: AnyPolicy, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._ledger, self._feed, self._policy, self._wall_clock = ledger, feed, policy, wall_clock

    async def list_plans(self, pending: Pending, nodes: Iterable[str]) -> list[Plan]:
        """Return the best plans by what is known here, the first one the best; one without victims stands alone."""
        budget, turns, found = Budget(MOST_STEPS), EventLoopShare(), list[Plan]()
        for node in nodes:
            if budget.is_spent():
                break
            if (plan := await self._plan(pending, node, budget, turns)) is not None:
                if not plan.victims:
                    return [plan]
                found.append(plan)
            await turns.rest()
        return sorted(found, key=lambda plan: (rank_victims(plan.victims), plan.node))[:MOST_READ]

    async def check(
        self, pending: Pending, node: str, pods: Collection[EvictablePod], budgets: DisruptionBudgets
    ) -> Plan | None:
        """Return a plan that spares whom nobody may evict; None where there is none.

        Args:
            pending: for whom.
            node: where.
            pods: those of the node as they are now.
            budgets: the disruption budgets as they are now.
        """
        by_uid = {each.ref.uid: each for each in pods}
        turns, may_go = EventLoopShare(), set[str]()
        for uid, each in by_uid.items():
            if _may_go(each, pending.pod.priority, budgets):
                may_go.add(uid)
            await turns.rest()
        now = self._wall_clock()
        leaving = frozenset(uid for uid, each in by_uid.items() if each.is_leaving(now))
        for _ in range(_ROUNDS):
            plan = await self._plan(pending, node, Budget(STEPS_PER_NODE), turns, may_go=may_go, leaving=leaving)
            if plan is None:
                return None
            excess = budgets.find_excess((pod, by_uid[pod.uid].labels) for pod in plan.pods)
            if not excess:
                return plan
            may_go -= excess
            await turns.rest()
        return None

    async def _plan(
        self,
        pending: Pending,
        node: str,
        budget: Budget,
        turns: EventLoopShare,
        *,
        may_go: Collection[str] | None = None,
        leaving: frozenset[str] = frozenset(),
    ) -> Plan | None:
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
            victims = await turns.finish(search)
        return None if victims is None else Plan(node, tuple(victims), gone)


def _may_go(pod: EvictablePod, priority: int, budgets: DisruptionBudgets) -> bool:
    return pod.priority < priority and not pod.static and not pod.leaving and not budgets.protects(pod.ref, pod.labels)
