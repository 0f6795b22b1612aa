"""The preempt verb, which selects victims whose eviction frees cards for the pod.

kube-scheduler's dry run adds up the amounts of a node, and selects the least important pods whose eviction is
sufficient. These pods may be on different cards, so that the preempting pod would not fit even after their eviction.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from accelkit.errors import BadArgsError
from accelkit.extender.preemption.wire import (
    MetaPod,
    MetaVictims,
    PreemptionArgs,
    PreemptionResult,
    needs_more_than_amounts,
    read_preemptor,
)
from accelkit.extender.simulation.event_loop_share import EventLoopShare
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.situations import list_candidates, take_situation
from accelkit.logs import Facts
from accelkit.model.host_amounts import UNKNOWN, read_pod_amounts
from accelkit.model.pending_pod import PendingPod
from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.changes.victims import MOST_STEPS, STEPS_PER_NODE, Candidate, search_victims
from accelkit.placement.policies import AnyPolicy

log = logging.getLogger(__name__)

# Time limit for all nodes of a call, including the time of other tasks. kube-scheduler waits for ten seconds, and then
# cancels the preemption. The response omits the remaining nodes, and kube-scheduler tries the pod again later.
ANSWER_SECONDS: Final = 2.0


class PreemptVerb:
    """The preempt verb, based on the ledger.

    Args:
        ledger: the ledger.
        feed: the feed with the priorities of pods and the free CPU and memory of hosts.
        policy: the policy that ranks cards if the pod does not name one.
        clock: a function that returns the seconds of a monotonic clock.
        wall_clock: a function that returns the seconds since 1970.
    """

    def __init__(
        self,
        ledger: Ledger,
        feed: LedgerFeed,
        policy: AnyPolicy,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._ledger, self._feed, self._policy = ledger, feed, policy
        self._clock, self._wall_clock = clock, wall_clock

    async def preempt(self, args: PreemptionArgs) -> PreemptionResult:
        """Return the nodes on which evictions would help, with their victims.

        Raises:
            BadArgsError: the UID of the pod or the victims are missing.
            msgspec.MsgspecError: the pod is unreadable.
        """
        began = self._clock()
        pod, offered = read_preemptor(args.Pod), args.list_offered()
        uid = pod.metadata.uid
        if not uid:
            raise BadArgsError("Pod.metadata.uid is missing")
        if args.NodeNameToMetaVictims is None and args.NodeNameToVictims is None:
            raise BadArgsError("both NodeNameToVictims and NodeNameToMetaVictims are missing")
        pending = self._feed.read_pending(pod)
        if pending is not None and (
            pending.refusal is not None or not pending.pod.preempts or self._ledger.find_holding(uid) is not None
        ):
            # The request of the pod is invalid, its policy does not allow preemption, or it waits for a Binding or for
            # pods that are already terminating.
            return PreemptionResult({})
        if pending is None or pending.request is None:
            return PreemptionResult(offered)
        if self._ledger.judge_quota(pending.pod.ref.namespace, pending.request) is not None:
            # Even after evictions, filter would reject the pod on every node.
            return PreemptionResult({})
        known = frozenset().union(*(dialect.resources.names for dialect in pending.pod.dialects))
        free_to_choose = not needs_more_than_amounts(args.Pod, known)
        request = self._ledger.resolve(pending.request)
        # Other tasks run between the trials, but no pauses are added, because kube-scheduler waits for the response.
        budget, event_loop = Budget(MOST_STEPS), EventLoopShare(rest_ratio=0)
        chosen: dict[str, MetaVictims] = {}
        for name, victims in offered.items():
            if budget.is_spent():
                break
            if found := await self._choose(
                pod, request, name, victims, budget, event_loop=event_loop, free_to_choose=free_to_choose
            ):
                chosen[name] = found
            if self._clock() - began >= ANSWER_SECONDS:
                break
            await event_loop.rest()
        log.info(Facts("preempts", pod=str(pending.pod.ref), uid=uid, nodes=len(offered), left=len(chosen)))
        return PreemptionResult(chosen)

    async def _choose(
        self,
        pod: PendingPod,
        request: PodRequest,
        name: str,
        victims: MetaVictims,
        budget: Budget,
        *,
        event_loop: EventLoopShare,
        free_to_choose: bool,
    ) -> MetaVictims | None:
        """Return the victims on a node; None if evictions would not help."""
        entry = self._ledger.find_node(name)
        if entry is None or entry.refusal is not None or not victims.uids:
            return None
        situation = take_situation(entry, request)
        with budget.lend(STEPS_PER_NODE) as trial:
            bound = self._feed.list_bound(name)
            priorities = {each.ref.uid: each.priority for each in bound}
            now = self._wall_clock()
            leaving = {each.ref.uid for each in bound if each.is_leaving(now)}
            # Another eviction of a pod whose termination is overdue does not free cards.
            gone = {*victims.uids} - {each.ref.uid for each in bound if each.ending and not each.is_leaving(now)}
            below = list_candidates(situation, bound, lambda each: each.priority < (pod.spec.priority or 0))
            fits = search_victims(situation, request, self._policy, (), trial, gone=gone)
            if await event_loop.finish(fits) is not None:
                # kube-scheduler selects as few victims as possible, so each victim is needed for some resource.
                return victims
            holders = {holder.pod.uid for holder in situation.holders}
            others = [uid for uid in victims.uids if uid not in holders]
            if free_to_choose:
                search = search_victims(situation, request, self._policy, below, trial, gone=leaving)
                found = await event_loop.finish(search)
                if found is not None and self._has_room(pod, name, {*others, *leaving, *(each.uid for each in found)}):
                    # The result is empty if it is enough to wait for pods that are already terminating.
                    return _name(victims, others, found, priorities)
            more = [each for each in below if each.uid not in victims.uids]
            search = search_victims(situation, request, self._policy, more, trial, gone=gone | leaving)
            found = await event_loop.finish(search)
            return None if found is None else _name(victims, victims.uids, found, priorities)

    def _has_room(self, pod: PendingPod, node: str, gone: Collection[str]) -> bool:
        """Return whether a host has the CPU and memory for a pod after some pods have terminated."""
        room, requested = self._feed.measure_room(node, gone), read_pod_amounts(pod.spec)
        return all(
            not amount or (free != unknown and free >= amount)
            for amount, free, unknown in zip(requested, room, UNKNOWN, strict=True)
        )


def _name(
    offered: MetaVictims, kept: Collection[str], found: Collection[Candidate], priorities: Mapping[str, int]
) -> MetaVictims | None:
    """Return the victims in descending order of priority, as kube-scheduler expects.

    kube-scheduler does not report which of its victims a disruption budget protects, and the extender does not read
    budgets in this verb. Therefore, added victims are reported as protected, so that nodes without added victims are
    preferred.
    """
    added = {each.uid: each.priority for each in found if each.uid not in kept}
    uids = [uid for uid in offered.uids if uid in kept]
    for uid, priority in added.items():
        place = next((at for at, other in enumerate(uids) if priorities.get(other, priority) < priority), len(uids))
        uids.insert(place, uid)
    theirs = sum(uid in offered.uids for uid in uids)
    violations = min(offered.NumPDBViolations, theirs) + len(uids) - theirs
    return MetaVictims([MetaPod(uid) for uid in uids], violations) if uids else None
