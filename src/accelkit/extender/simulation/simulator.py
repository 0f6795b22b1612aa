"""Simulation of filter, prioritize and bind for a pod, without side effects.

`Ledger.choose` decides whether the pod fits and which cards bind would choose, and prioritize computes the scores. Only
one simulation runs at a time, in short turns so that other work of the process can run in between. One limit applies to
the searches on all nodes together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from accelkit.errors import BadArgsError, NotReadyError
from accelkit.extender.simulation.event_loop_share import EventLoopShare
from accelkit.extender.simulation.outcomes import Judged, NodeOutcome, OutcomeCalculator
from accelkit.extender.simulation.views import NodeViews
from accelkit.extender.verbs import UNKNOWN, Verbs, cut_reason
from accelkit.extender.wire import Args
from accelkit.inspection.simulation import MAX_WITHOUT, NodeSimulation, SimulationHead, SimulationQuestion
from accelkit.ledger.bound_pods import DEFAULT_UNIT_BYTES
from accelkit.ledger.claims import is_blocked
from accelkit.ledger.feed import LedgerFeed, Pending
from accelkit.ledger.holding import NodeEntry
from accelkit.ledger.ledger import Ledger
from accelkit.model.pending_pod import PendingPod
from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.changes.situation import Terms, bound_lack
from accelkit.placement.misfit import Misfit, MisfitReason

# Maximum number of steps for the decisions, as in filter, and a separate maximum for the search for changes.
_STEPS: Final = 20_000
_STEPS_PER_NODE: Final = 16
_MOST_STEPS: Final = 60_000
_CHANGE_STEPS: Final = 5_000
_MOST_CHANGE_STEPS: Final = 20_000
# Maximum number of steps for one node until its first change is found.
_CHANGE_STEPS_PER_NODE: Final = 2_000
# Number of distinct nodes for which all kinds of changes are searched. For other nodes, the search stops after one
# change.
_SEARCHED_THROUGH: Final = 16
_WAIT_SECONDS: Final = 2.0
# UID that is used for prioritize if the pod does not exist.
_SOME_UID: Final = "simulated"
_REFUSED: Final = "Refused"


class Simulator:
    """Simulator of the verbs.

    Args:
        ledger: the ledger.
        feed: the feed, which reads requests in the cluster's unit.
        verbs: the verbs, with the scores and the policy.
        describe_group: a function that returns the reason why the group of the pod with a given UID waits; None if
            groups are disabled.
    """

    def __init__(
        self, ledger: Ledger, feed: LedgerFeed, verbs: Verbs, describe_group: Callable[[str], str] | None = None
    ) -> None:
        self._describe_group = describe_group
        self._ledger, self._feed, self._verbs = ledger, feed, verbs
        self._turn = asyncio.Lock()

    async def simulate(self, question: SimulationQuestion) -> bytes:
        """Return the result of one simulation as JSON, in the format of `Simulation`.

        Raises:
            BadArgsError: the request contains too many pods.
            NotReadyError: another simulation is in progress.
        """
        if len(question.without) > MAX_WITHOUT:
            raise BadArgsError(f"the field `without` contains {len(question.without)} pods; the limit is {MAX_WITHOUT}")
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._turn.acquire()
        except TimeoutError as exc:
            raise NotReadyError("another simulation is in progress; try again") from exc
        try:
            return msgspec.json.encode(await self._answer(question, EventLoopShare()))
        finally:
            self._turn.release()

    async def _answer(self, question: SimulationQuestion, event_loop: EventLoopShare) -> _Encoded:
        gone, absent = await self._find_gone(frozenset(question.without), event_loop)
        what_if = _WhatIf(self._ledger, self._ledger.branch(gone))
        names = await self._list_names(question, event_loop)
        pending, uid = self._feed.read_pending(question.pod), question.pod.metadata.uid
        unit_bytes = self._ledger.unit_bytes or DEFAULT_UNIT_BYTES
        answer = _Encoded(policy=str(self._verbs.policy), unit_bytes=unit_bytes, absent=tuple(absent), nodes=[])
        if self._describe_group is not None:
            answer = msgspec.structs.replace(answer, group=cut_reason(self._describe_group(uid)))
        if pending is not None and pending.refusal is not None:
            refusal = cut_reason(str(pending.refusal))
            refused = await _encode(_refuse(names, _REFUSED, refusal), event_loop)
            return msgspec.structs.replace(answer, refusal=refusal, nodes=refused)
        if pending is None or pending.request is None:
            fitting = (NodeSimulation(name, fits=True) for name in names)
            return msgspec.structs.replace(answer, nodes=await _encode(fitting, event_loop))
        request = self._ledger.resolve(pending.request)
        answer = msgspec.structs.replace(answer, request=pending.request.containers)
        views = NodeViews(request, pending.pod.dialect, self._verbs.policy)
        held = None if uid in gone else self._ledger.find_holding(uid)
        beyond = self._ledger.judge_quota(pending.pod.ref.namespace, request, {*gone, uid})
        blocked = held is not None and is_blocked(self._ledger, held, pending.request, self._verbs.policy)
        if held is not None and held.node in names and not blocked:
            kept = (views.build_held_simulation(name, held) for name in names)
            return msgspec.structs.replace(answer, nodes=await _encode(kept, event_loop))
        if beyond is not None:
            sentence = pending.pod.dialect.format_misfit(beyond)
            refused = await _encode(_refuse(names, beyond.reason.value, sentence), event_loop)
            return msgspec.structs.replace(answer, refusal=sentence, nodes=refused)
        judged = await self._judge(request, what_if, names, event_loop)
        spent = await self._search(pending, request, judged, event_loop)
        scores = await self._score(question.pod, what_if, judged, event_loop)
        views_of_nodes = (
            views.build_node_simulation(each, what_if.find(each.name)[1], scores.get(each.name, 0)) for each in judged
        )
        return msgspec.structs.replace(answer, nodes=await _encode(views_of_nodes, event_loop), spent=spent)

    async def _find_gone(self, named: frozenset[str], event_loop: EventLoopShare) -> tuple[dict[str, str], list[str]]:
        """Return the nodes of the omitted pods by UID, and the names of the omitted pods that have no cards."""
        gone: dict[str, str] = {}
        matched = set[str]()
        for entry in self._ledger.list_nodes() if named else ():
            pods = [held.pod for held in entry.holdings.values()] + [pod.pod for pod in entry.unassigned.values()]
            for pod in pods:
                if found := {pod.uid, str(pod)} & named:
                    gone[pod.uid] = entry.name
                    matched |= found
            await event_loop.rest()
        return gone, sorted(named - matched)

    async def _list_names(self, question: SimulationQuestion, event_loop: EventLoopShare) -> list[str]:
        if question.nodes is not None:
            return list(dict.fromkeys(question.nodes))
        names = []
        for entry in self._ledger.list_nodes():
            # As in inspect, nodes that do not share cards are omitted.
            if entry.problem is None or entry.problem.reason not in _BARE:
                names.append(entry.name)
            await event_loop.rest()
        return names

    async def _judge(
        self, request: PodRequest, what_if: _WhatIf, names: Sequence[str], event_loop: EventLoopShare
    ) -> list[Judged]:
        steps = min(_MOST_STEPS, _STEPS + _STEPS_PER_NODE * len(names))
        judge = OutcomeCalculator(request, self._verbs.policy, Budget(steps))
        judged = []
        for name in names:
            ledger, entry = what_if.find(name)
            known = None if entry is None else judge.judge(ledger, entry)
            judged.append(known or Judged(name, NodeOutcome(UNKNOWN, ended=True), None))
            await event_loop.rest()
        return judged

    async def _search(
        self, pending: Pending, request: PodRequest, judged: Sequence[Judged], event_loop: EventLoopShare
    ) -> bool:
        """Search for changes, first on nodes that lack the least; return whether the limit stopped the search."""
        policy = self._verbs.policy
        steps = min(_MOST_CHANGE_STEPS, _CHANGE_STEPS + _STEPS_PER_NODE * len(judged))
        budget, terms = Budget(steps), _list_terms(pending, self._ledger.unit_bytes)
        # If the shortage on a node is small, small changes are sufficient.
        lacks: dict[int, tuple[int, int]] = {}
        outcomes = [each for each in {id(one.outcome): one.outcome for one in judged}.values() if _is_open(each)]
        for number, outcome in enumerate(outcomes):
            lacks[id(outcome)] = bound_lack(outcome.node.states if outcome.node else (), request.containers), number
            await event_loop.rest()
        outcomes.sort(key=lambda each: lacks[id(each)])
        for number, outcome in enumerate(outcomes):
            if budget.is_spent():
                break
            outcome.begin(request, policy, terms, budget)
            await _continue_search(outcome, budget, event_loop, until=budget.steps - _CHANGE_STEPS_PER_NODE)
            if number >= _SEARCHED_THROUGH:
                outcome.stop()
        for outcome in outcomes[:_SEARCHED_THROUGH]:
            while outcome.searching and not budget.is_spent():
                await _continue_search(outcome, budget, event_loop)
            outcome.stop()
        return budget.is_spent()

    async def _score(
        self, pod: PendingPod, what_if: _WhatIf, judged: Iterable[Judged], event_loop: EventLoopShare
    ) -> Mapping[str, int]:
        metadata = msgspec.structs.replace(pod.metadata, uid=pod.metadata.uid or _SOME_UID)
        named = msgspec.structs.replace(pod, metadata=metadata)
        fitting = [each.name for each in judged if not isinstance(each.outcome.placed, Misfit)]
        here = [name for name in fitting if what_if.find(name)[0] is self._ledger]
        there = [name for name in fitting if what_if.find(name)[0] is not self._ledger]
        await event_loop.rest()
        found = self._verbs.prioritize(Args(named, NodeNames=here))
        found += Verbs(what_if.branch, self._feed, self._verbs.policy).prioritize(Args(named, NodeNames=there))
        return {each.Host: each.Score for each in found}


class _Encoded(SimulationHead, frozen=True, kw_only=True):
    """A `Simulation` whose nodes are encoded separately."""

    nodes: list[msgspec.Raw]


class _WhatIf:
    """Ledger in which the nodes of the omitted pods are replaced by changed copies."""

    def __init__(self, ledger: Ledger, branch: Ledger) -> None:
        self._ledger, self.branch = ledger, branch

    def find(self, name: str) -> tuple[Ledger, NodeEntry | None]:
        """Return a node and the ledger that contains it."""
        entry = self.branch.find_node(name)
        return (self._ledger, self._ledger.find_node(name)) if entry is None else (self.branch, entry)


_BARE: Final = frozenset({MisfitReason.NO_INVENTORY, MisfitReason.UNKNOWN_NODE})


def _list_terms(pending: Pending, unit_bytes: int | None) -> Terms:
    dialect = pending.pod.dialect
    steps = (unit_bytes or DEFAULT_UNIT_BYTES,) if dialect.resources.memory else (2**20, 10**6)
    return Terms(steps, frozenset({"same_card_as"}) if dialect.one_card_per_pod else frozenset())


def _is_open(outcome: NodeOutcome) -> bool:
    return isinstance(outcome.placed, Misfit) and outcome.node is not None


def _refuse(names: Iterable[str], reason: str, sentence: str) -> Iterable[NodeSimulation]:
    return (NodeSimulation(name, fits=False, reason=reason, sentence=sentence) for name in names)


async def _encode(nodes: Iterable[NodeSimulation], event_loop: EventLoopShare) -> list[msgspec.Raw]:
    encoded, encode = [], msgspec.json.Encoder().encode
    for node in nodes:
        encoded.append(msgspec.Raw(encode(node)))
        await event_loop.rest()
    return encoded


async def _continue_search(outcome: NodeOutcome, budget: Budget, event_loop: EventLoopShare, *, until: int = 0) -> None:
    """Search for one more change of a node, until the budget has at most `until` steps left."""
    while outcome.searching and budget.steps > until:
        found = outcome.try_next()
        if outcome.ended:
            # If the budget was used up, more changes may exist.
            outcome.ended = not budget.is_spent()
            return
        await event_loop.rest()
        if found:
            return
