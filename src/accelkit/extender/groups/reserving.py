"""Reservation of cards for at least the required number of a group's pods, or for none of them.

Pods are placed one by one, starting with the largest pod. For each pod, the policy selects a node among the nodes that
have room and satisfy the pod's rules. The ledger's lock is held during the reservation and the release after a failure.

This module performs no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.extender.node_scores import NodeScores
from accelkit.ledger.claims import reserve
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.verdicts import ShapeVerdict, ShapeVerdicts
from accelkit.model.host_amounts import NOTHING, HostAmounts
from accelkit.model.pod import PodRef
from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.misfit import MisfitError
from accelkit.placement.mix import TaskMix, TaskType
from accelkit.placement.policies import AnyPolicy, find_policy

# Number of nodes that are ranked again for each pod, and number of pods after which all nodes are ranked again.
_SHORTLIST: Final = 64
_RANKED_FOR: Final = 32
# Maximum number of search steps for one group if no two nodes are equivalent.
_STEPS: Final = 40_000
# Maximum number of steps to check the node rules of one group. One step checks one requirement of a distinct set of
# rules on one node.
_RULE_STEPS: Final = 200_000


@dataclass(frozen=True, slots=True)
class UnplacedPod:
    """A pod to place.

    Attributes:
        task: the type of the pod in the task mix.
        host: the host requests of the pod.
        rules: the encoded node selector, node affinity and tolerations of the pod.
        node: the required node of the pod; empty for any node.
        labels: the labels of the pod, as `key=value`.
    """

    ref: PodRef
    request: PodRequest
    task: TaskType | None
    host: HostAmounts
    rules: bytes
    node: str = ""
    labels: tuple[str, ...] = ()

    @property
    def weight(self) -> tuple[int, int]:
        """The size of the request: whole cards, then bytes."""
        containers = self.request.containers
        whole = sum(each.cards for each in containers if each.whole)
        return whole, sum(each.cards * each.memory_bytes for each in containers)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Result if too few pods fit, with the number of pods that fit and the first pod that does not fit.

    Attributes:
        unjudged: whether the first pod that does not fit has too many node rules to check on all nodes.
    """

    fitted: int
    first: PodRef
    unjudged: bool = False


class GroupReserver:
    """Component that reserves cards for groups.

    Args:
        ledger: the ledger with the reservations.
        mix: the task mix, which another component updates.
        policy: the policy that ranks cards and nodes if the pod does not name one.
        list_allowed: a function that returns the nodes that satisfy the rules of a pod; None if the budget is too small
            to check all nodes.
    """

    def __init__(
        self, ledger: Ledger, mix: TaskMix, policy: AnyPolicy, list_allowed: Callable[[bytes, Budget], set[str] | None]
    ) -> None:
        self._ledger, self._policy, self._list_allowed = ledger, policy, list_allowed
        self._verdicts = ShapeVerdicts(ledger)
        self._scores = NodeScores(ledger, mix)

    def reserve(
        self, pods: Sequence[UnplacedPod], least: int, taken: dict[str, HostAmounts] | None = None
    ) -> list[PodRef] | Shortage:
        """Reserve cards for all pods that fit; reserve nothing if fewer than `least` pods fit.

        Args:
            pods: the pods, which have no cards; all pods with a required node must fit.
            least: the minimum number of pods that must fit.
            taken: the host amounts that other unbound pods will use, by node.
        """
        turn = _Turn(dict(taken or {}), Budget(_STEPS))
        placed: list[PodRef] = []
        missing: list[UnplacedPod] = []
        with self._ledger.lock():
            for each in sorted(pods, key=lambda one: (bool(one.node), one.weight), reverse=True):
                if self._place(each, turn):
                    placed.append(each.ref)
                    continue
                missing.append(each)
                if each.node or len(pods) - len(missing) < least:
                    break
            else:
                return placed
            for ref in placed:
                self._ledger.release(ref.uid)
        return Shortage(len(placed), missing[0].ref, turn.allowed.get(missing[0].rules, ()) is None)

    def move(self, ref: PodRef, request: PodRequest, node: str) -> bool:
        """Move a pod's reservation to another node; if the node has no room, return False without any change."""
        policy = find_policy(request, self._policy)
        with self._ledger.lock():
            held = self._ledger.find_holding(ref.uid)
            labels = held.labels if held is not None else ()
            self._ledger.release(ref.uid)
            try:
                self._ledger.reserve(ref, node, request, policy, labels)
            except MisfitError:
                if held is not None:
                    self._ledger.restore(held)
                return False
        return True

    def _place(self, pod: UnplacedPod, turn: _Turn) -> bool:
        request = pod.request
        policy = find_policy(request, self._policy)
        if pod.node:
            return self._reserve(pod, pod.node, policy, turn)
        if self._ledger.judge_quota(pod.ref.namespace, request) is not None:
            # The quota prevents the pod from running on any node.
            return False
        key = request, policy, pod.rules
        shortlist = turn.shortlists.get(key)
        if shortlist is None or shortlist.used >= _RANKED_FOR:
            shortlist = turn.shortlists[key] = _Shortlist(self._rank(pod, policy, turn, _SHORTLIST))
        shortlist.used += 1
        for names in (shortlist.names, None):
            # If no node of the shortlist has room, try all nodes.
            found = self._rank(pod, policy, turn, 0 if names is None else _SHORTLIST, names)
            if any(self._reserve(pod, name, policy, turn) for name in found):
                if names is None:
                    del turn.shortlists[key]
                return True
        return False

    def _rank(
        self, pod: UnplacedPod, policy: AnyPolicy, turn: _Turn, most: int, names: Sequence[str] | None = None
    ) -> list[str]:
        """Return the nodes that fit, best first, from the given nodes or from all nodes; `most` 0 means no limit."""
        verdict = self._verdicts.judge(pod.request, policy)
        if names is None:
            if pod.rules not in turn.allowed:
                turn.allowed[pod.rules] = self._list_allowed(pod.rules, turn.rules_budget)
            if not (allowed := turn.allowed[pod.rules]):
                return []
            self._judge(verdict, turn.budget)
            fitting = list(verdict.fits & allowed)
        else:
            self._judge(verdict, turn.budget, names)
            fitting = [name for name in names if name in verdict.fits]
        if not fitting:
            return []
        return self._scores.choose(fitting, most or len(fitting), pod.request, policy, pod.task)

    def _judge(self, verdict: ShapeVerdict, budget: Budget, names: Sequence[str] | None = None) -> None:
        if verdict.stale:
            for _ in self._verdicts.judge_stale(verdict, list(verdict.stale) if names is None else names, budget):
                pass

    def _reserve(self, pod: UnplacedPod, node: str, policy: AnyPolicy, turn: _Turn) -> bool:
        row = self._ledger.find_row(node)
        taken = turn.taken.get(node, NOTHING)
        if row < 0 or (not pod.node and not self._has_room(row, taken + pod.host)):
            return False
        try:
            reserve(self._ledger, pod.ref, node, pod.request, policy, labels=pod.labels)
        except MisfitError:
            return False
        turn.taken[node] = taken + pod.host
        return True

    def _has_room(self, row: int, amounts: HostAmounts) -> bool:
        columns = self._ledger.table.get_columns()
        return bool(columns.cpu[row] >= amounts.cpu_milli and columns.host_bytes[row] >= amounts.memory_bytes)


@dataclass(slots=True)
class _Shortlist:
    names: list[str]
    used: int = 0


class _Turn:
    """Budget and intermediate results for one group."""

    def __init__(self, taken: dict[str, HostAmounts], budget: Budget) -> None:
        self.taken, self.budget, self.rules_budget = taken, budget, Budget(_RULE_STEPS)
        self.allowed: dict[bytes, set[str] | None] = {}
        self.shortlists: dict[tuple[PodRequest, AnyPolicy, bytes], _Shortlist] = {}
