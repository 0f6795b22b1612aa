"""The filter and prioritize verbs, based on the ledger.

This module performs no I/O.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import compress, filterfalse
from typing import Final, NamedTuple

import msgspec

from accelkit.errors import BadArgsError
from accelkit.extender.node_scores import NodeScores
from accelkit.extender.wire import Args, FilterResult, HostPriority, RawNodes
from accelkit.kube.views.metadata import PartialObject
from accelkit.ledger.claims import is_blocked
from accelkit.ledger.feed import LedgerFeed, Pending
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.verdicts import ShapeVerdict, ShapeVerdicts
from accelkit.logs import Facts, RepeatLog
from accelkit.model.pod import Pod
from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.policies import AnyPolicy, find_policy
from accelkit.vendors.dialect import Dialect

log = logging.getLogger(__name__)

# Maximum number of steps for one call if no two nodes are equivalent. At about 25 microseconds per step, the search
# takes half a second in total, and 0.4 ms for each node.
_STEPS: Final = 20_000
_STEPS_PER_NODE: Final = 16
# Default number of nodes that filter returns, which kube-scheduler then ranks by its own scores.
MOST_NODES: Final = 16
# Maximum length of a reason, because the response repeats a reason for every node.
_MAX_REASON: Final = 500

UNKNOWN: Final = Misfit(MisfitReason.UNKNOWN_NODE)
_node_name = msgspec.json.Decoder(PartialObject)


class Verbs:
    """The filter and prioritize verbs, based on the ledger.

    Args:
        ledger: the ledger.
        feed: the feed, which reads requests in the cluster's unit.
        policy: the policy that ranks cards and nodes if the pod does not name one.
        most_nodes: the maximum number of nodes that filter returns, selected by the policy; 0 for all nodes that fit.
        note_refused: a function that is called with each pod that is rejected on all nodes, and with the nodes that
            other pods block; the nodes are empty if the pod exceeds the quota of its namespace.
    """

    def __init__(
        self,
        ledger: Ledger,
        feed: LedgerFeed,
        policy: AnyPolicy,
        *,
        most_nodes: int = 0,
        note_refused: Callable[[Pod, Iterable[str]], None] | None = None,
    ) -> None:
        self._note_refused = note_refused
        self._most_nodes = most_nodes
        self._ledger = ledger
        self._feed = feed
        self._verdicts = ShapeVerdicts(ledger)
        self._scores = NodeScores(ledger, feed.mix)
        self._repeats = RepeatLog(log)
        self.policy = policy

    async def filter(self, args: Args) -> FilterResult:
        """Return the nodes that fit, and the reason for each other node.

        The results for simple pod requests are computed immediately. The computation for other pod requests has one
        budget for all nodes together, and other tasks can run in between. Nodes may change during the computation; this
        is safe because bind decides again.

        Raises:
            BadArgsError: the UID of the pod, or the nodes, are missing.
        """
        started = time.monotonic()
        names, whole = _nodes(args)
        pending = self._feed.read_pending(args.Pod)
        if pending is not None and pending.refusal is not None:
            reason = cut_reason(str(pending.refusal))
            self._log(pending, len(names), 0, started, lambda: {reason: len(names)})
            return _refuse_all(names, reason, whole)
        if pending is None or pending.request is None:
            return _answer(names, whole, [True] * len(names))
        request, dialect, policy = pending.request, pending.pod.dialect, self._policy_of(pending.request)
        uid = args.Pod.metadata.uid
        held = self._ledger.find_holding(uid)
        if held is not None and held.node in names and not is_blocked(self._ledger, held, request, policy):
            return self._only(held.node, names, whole, dialect)
        # Exclude the claim of the pod itself from the amounts that the namespace holds.
        beyond = self._ledger.judge_quota(pending.pod.ref.namespace, request, without=(uid,))
        if beyond is not None:
            self._ledger.namespaces.note_refused(pending.pod.ref.namespace)
            self._note_beyond(args.Pod)
            self._log(pending, len(names), 0, started, lambda: {beyond.reason: len(names)})
            return _refuse_all(names, dialect.format_misfit(beyond), whole)
        verdict = self._verdicts.judge(request, policy)
        if verdict.stale:
            budget = Budget(_STEPS + _STEPS_PER_NODE * len(names))
            for _ in self._verdicts.judge_stale(verdict, names, budget):
                await asyncio.sleep(0)
        fitting = list(filter(verdict.fits.__contains__, names))
        failed = len(names) - len(fitting)
        # Compute the result on demand, and only once for all callers.
        find_failing = cache(partial(_find_failing, verdict, names))
        self._log(pending, len(names), len(fitting), started, lambda: _count_reasons(verdict, find_failing()))
        if self._note_refused is not None and not fitting:
            reasons = verdict.reasons
            pairs = zip(*find_failing(), strict=True)
            self._note_refused(args.Pod, (name for name, number in pairs if reasons[number].resolvable))
        leaves_best = self._most_nodes and not (args.Pod.spec.weighs_nodes or args.Pod.unschedulable)
        if leaves_best and len(fitting) > self._most_nodes:
            fitting = self._scores.choose(fitting, self._most_nodes, request, policy, pending.task)
        result = _keep(names, whole, fitting)
        # kube-scheduler reads the reasons only if no node fits. In that case, the next attempt returns all reasons.
        if failed and not (leaves_best and fitting):
            _explain(result, find_failing(), verdict, dialect)
        return result

    def _log(
        self, pending: Pending, nodes: int, fit: int, started: float, count: Callable[[], Mapping[str, int]]
    ) -> None:
        """Log the result of a filter call; log the same result for a pod at most once per minute."""
        ref = pending.pod.ref
        seconds = time.monotonic() - started
        self._repeats.info(
            (ref.uid, nodes, fit),
            lambda: Facts(
                "filtered", pod=str(ref), uid=ref.uid, nodes=nodes, fit=fit, refused=count(), seconds=seconds
            ),
        )

    def prioritize(self, args: Args) -> list[HostPriority]:
        """Return the policy's scores of nodes, from 0 to 10; 0 for unknown nodes and for pods that request no cards.

        Raises:
            BadArgsError: the UID of the pod, or the nodes, are missing.
        """
        names, _ = _nodes(args)
        pending = self._feed.read_pending(args.Pod)
        if pending is None or pending.request is None:
            return [HostPriority(name, 0) for name in names]
        return self._scores.rank(names, pending.request, self._policy_of(pending.request), pending.task)

    def _only(self, node: str, names: list[str], whole: list[msgspec.Raw] | None, dialect: Dialect) -> FilterResult:
        # The pod already has cards, for example because the response to its Binding was lost, so allow only the node of
        # these cards.
        result = _answer(names, whole, [name == node for name in names])
        text = dialect.format_misfit(Misfit(MisfitReason.HELD_ELSEWHERE, detail=node))
        result.FailedNodes = {name: text for name in names if name != node} or None
        return result

    def _note_beyond(self, pod: Pod) -> None:
        if self._note_refused is not None:
            self._note_refused(pod, ())

    def _policy_of(self, request: PodRequest) -> AnyPolicy:
        return find_policy(request, self.policy)


def _nodes(args: Args) -> tuple[list[str], list[msgspec.Raw] | None]:
    if not args.Pod.metadata.uid:
        raise BadArgsError("Pod.metadata.uid is missing")
    if args.NodeNames is not None:
        return args.NodeNames, None
    if args.Nodes is None:
        raise BadArgsError("both Nodes and NodeNames are missing")
    items = args.Nodes.items or []
    try:
        return [_node_name.decode(item).metadata.name for item in items], items
    except msgspec.MsgspecError as exc:
        raise BadArgsError(f"Nodes.items: {exc}") from exc


def _answer(names: list[str], whole: list[msgspec.Raw] | None, fits: Sequence[bool]) -> FilterResult:
    if whole is None:
        return FilterResult(NodeNames=list(compress(names, fits)))
    return FilterResult(Nodes=RawNodes(list(compress(whole, fits))))


def _keep(names: list[str], whole: list[msgspec.Raw] | None, kept: list[str]) -> FilterResult:
    if whole is None:
        return FilterResult(NodeNames=kept)
    return FilterResult(Nodes=RawNodes(list(compress(whole, map(set(kept).__contains__, names)))))


class _Failing(NamedTuple):
    """Nodes that do not fit, each with the index of its reason."""

    names: list[str]
    numbers: list[int]


def _find_failing(verdict: ShapeVerdict, names: list[str]) -> _Failing:
    # For thousands of names, built-in functions take a third of the time.
    failing = list(filterfalse(verdict.fits.__contains__, names))
    found = list(map(verdict.failing.get, failing))
    unknown = verdict.assign_number(UNKNOWN) if None in found else 0
    return _Failing(failing, [unknown if number is None else number for number in found])


def _explain(result: FilterResult, failing: _Failing, verdict: ShapeVerdict, dialect: Dialect) -> None:
    """Set the reasons; FailedNodes contains all reasons, because kube-scheduler before 1.21 reads only this map."""
    texts = [dialect.format_misfit(reason) for reason in verdict.reasons]
    numbers = set(failing.numbers)
    result.FailedNodes = _texts(failing, texts, numbers)
    never = {number for number in numbers if not verdict.reasons[number].resolvable}
    if never == numbers:
        result.FailedAndUnresolvableNodes = result.FailedNodes
    elif never:
        chosen = list(map(never.__contains__, failing.numbers))
        unresolvable = _Failing(list(compress(failing.names, chosen)), list(compress(failing.numbers, chosen)))
        result.FailedAndUnresolvableNodes = _texts(unresolvable, texts, never)


def _count_reasons(verdict: ShapeVerdict, failing: _Failing) -> Mapping[str, int]:
    counts = Counter[str]()
    for number, count in Counter(failing.numbers).items():
        counts[verdict.reasons[number].reason] += count
    return counts


def cut_reason(reason: str) -> str:
    """Return a reason, truncated to the maximum length in responses."""
    return reason if len(reason) <= _MAX_REASON else f"{reason[: _MAX_REASON - 1]}…"


def _texts(failing: _Failing, texts: list[str], numbers: set[int]) -> dict[str, str]:
    if len(numbers) == 1:
        # This is four times as fast in the common case that thousands of nodes have the same reason.
        return dict.fromkeys(failing.names, texts[next(iter(numbers))])
    return dict(zip(failing.names, map(texts.__getitem__, failing.numbers), strict=True))


def _refuse_all(names: list[str], reason: str, whole: list[msgspec.Raw] | None) -> FilterResult:
    result = _answer(names, whole, [False] * len(names))
    result.FailedNodes = dict.fromkeys(names, reason)
    result.FailedAndUnresolvableNodes = result.FailedNodes
    return result
