"""Planner for evictions that make pending pods fit.

The planner uses a separate ledger, and does not perform I/O. It processes the pending pods by priority, then by age.
The plan for each pod is based on the assumption that the steps for earlier pods have been carried out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from accelkit.defragmentation.reading import ReadCluster
from accelkit.defragmentation.rules import find_rule, list_refusals
from accelkit.ledger.feed import Pending
from accelkit.ledger.holding import Holding
from accelkit.ledger.situations import list_candidates, take_situation
from accelkit.model.host_amounts import NOTHING, HostAmounts, read_pod_amounts
from accelkit.model.pod import PodRef
from accelkit.model.request import PodRequest
from accelkit.placement.budget import Budget
from accelkit.placement.changes.victims import STEPS_PER_NODE, Candidate, find_victims, rank_victims
from accelkit.placement.misfit import MisfitError
from accelkit.placement.policies import AnyPolicy
from accelkit.vendors.pod_reading import CardPod

PLAN_VERSION: Final = 1
# The maximum number of victim sets to try on a node. Each additional set excludes the pods that must not be evicted.
_ROUNDS: Final = 8


class Eviction(msgspec.Struct, frozen=True):
    """The planned eviction of a pod.

    Attributes:
        priority: the priority of the pod.
        node: the node from which the pod is evicted.
        fits: a node on which the replacement of the pod would fit; empty if there is none.
    """

    namespace: str
    pod: str
    uid: str
    priority: int
    node: str
    fits: str = ""


class PlannedPlacement(msgspec.Struct, frozen=True):
    """A pending pod, its planned node, and the required evictions, if any."""

    namespace: str
    pod: str
    uid: str
    priority: int
    node: str
    evictions: tuple[Eviction, ...] = ()


class LeftOut(msgspec.Struct, frozen=True):
    """A pending pod without a step in the plan, and the reason."""

    namespace: str
    pod: str
    uid: str
    priority: int
    reason: str


class DefragmentationPlan(msgspec.Struct, frozen=True):
    """The steps of a plan, and the pending pods without a step."""

    steps: tuple[PlannedPlacement, ...]
    left_out: tuple[LeftOut, ...]
    evictions: int
    version: int = PLAN_VERSION


@dataclass(slots=True)
class _Trial:
    """Changes to the ledger that can be reverted."""

    gone: list[tuple[Holding, CardPod]] = field(default_factory=list)
    placed: list[str] = field(default_factory=list)


class Planner:
    """Planner for a cluster. It modifies the ledger in the data of the cluster.

    Args:
        cluster: the data of the cluster.
        policy: the policy that the extender uses to choose cards.
        most_evictions: the maximum number of evictions in the plan.
    """

    def __init__(self, cluster: ReadCluster, policy: AnyPolicy, most_evictions: int) -> None:
        self._cluster, self._policy, self._left = cluster, policy, most_evictions
        self._gone: dict[str, PodRef] = {}
        # CPU and memory of the pods that this plan has placed on each host.
        self._added: dict[str, HostAmounts] = {}

    def plan(self) -> DefragmentationPlan:
        """Return the plan for all pods that kube-scheduler has marked as unschedulable."""
        waiting = [each for each in self._cluster.feed.pending.values() if each.pod.unschedulable]
        waiting.sort(key=lambda each: (-each.pod.priority, each.pod.created_at, str(each.pod.ref)))
        steps, left_out = list[PlannedPlacement](), list[LeftOut]()
        for pending in waiting:
            found = self._plan_pod(pending)
            ref, priority = pending.pod.ref, pending.pod.priority
            if isinstance(found, str):
                left_out.append(LeftOut(ref.namespace, ref.name, ref.uid, priority, found))
            else:
                steps.append(found)
        return DefragmentationPlan(tuple(steps), tuple(left_out), sum(len(step.evictions) for step in steps))

    def _plan_pod(self, pending: Pending) -> PlannedPlacement | str:
        uid = pending.pod.ref.uid
        if pending.request is None:
            return str(pending.refusal or "it requests no card")
        if reason := self._find_reason(pending.pod, pending.request):
            return reason
        nodes = self._list_suiting(uid)
        for node in nodes:
            if self._place(pending.pod, node, pending.request):
                return self._build_step(pending, node, ())
        best = self._find_best(pending, pending.request, nodes)
        if best is None:
            return self._explain(pending.pod, nodes) if nodes else "no node is suitable, regardless of its cards"
        node, victims = best
        if len(victims) > self._left:
            return f"the limit of evictions is reached; the pod needs {len(victims)} more"
        self._left -= len(victims)
        self._try(pending, pending.request, node, victims)
        self._gone.update((each.uid, each.holder.pod) for each in victims)
        return self._build_step(pending, node, victims)

    def _find_reason(self, pod: CardPod, request: PodRequest) -> str:
        """Return the reason why evictions cannot make a pod fit; empty if they may make it fit."""
        uid = pod.ref.uid
        if conditions := self._cluster.unread.get(uid):
            return f"only kube-scheduler can evaluate its {conditions}"
        if self._cluster.pods[uid].grouped:
            return "it belongs to a pod group, but the plan considers only single pods"
        exceeded = self._cluster.ledger.judge_quota(pod.ref.namespace, request)
        return "" if exceeded is None else pod.dialect.format_misfit(exceeded)

    def _find_best(
        self, pending: Pending, request: PodRequest, nodes: Iterable[str]
    ) -> tuple[str, list[Candidate]] | None:
        """Return the best node and victims. Prefer fewer victims that fit on no other node, then use `rank_victims`."""
        best: tuple[tuple[object, ...], str, list[Candidate]] | None = None
        for node in nodes:
            victims = self._find(pending, request, node)
            trial = None if victims is None else self._try(pending, request, node, victims)
            if victims is None or trial is None:
                continue
            lost = sum(each.uid not in trial.placed for each in victims)
            self._undo(trial)
            rank = (lost, *rank_victims(victims), node)
            if best is None or rank < best[0]:
                best = rank, node, victims
        return None if best is None else best[1:]

    def _find(self, pending: Pending, request: PodRequest, node: str) -> list[Candidate] | None:
        """Return the victims on a node; None if the pod does not fit after permitted evictions."""
        entry = self._cluster.ledger.find_node(node)
        if entry is None or entry.problem is not None:
            return None
        situation = take_situation(entry, request)
        bound = self._cluster.feed.list_bound(node)
        for _ in range(_ROUNDS):
            candidates = list_candidates(situation, bound, lambda pod: not self._find_rule(pod, pending.pod))
            found = find_victims(situation, request, self._policy, candidates, Budget(STEPS_PER_NODE))
            if not found:
                return None
            refused = self._find_excess(found)
            if not refused and (trial := self._try(pending, request, node, found)) is not None:
                self._undo(trial)
                refused = {each.uid for each in found if self._must_stay(each, trial, pending.pod)}
            if not refused:
                return found
            bound = [each for each in bound if each.ref.uid not in refused]
        return None

    def _find_rule(self, pod: CardPod, waiting: CardPod) -> str:
        if pod.ref.uid in self._gone:
            return "this plan already evicts it"
        return find_rule(pod, self._cluster.pods.get(pod.ref.uid), waiting, self._cluster.budgets)

    def _explain(self, waiting: CardPod, nodes: Iterable[str]) -> str:
        """Return the reason why evictions do not make a pod fit, including the rules that prevent evictions."""
        bound = (pod for node in nodes for pod in self._cluster.feed.list_bound(node))
        refusals = list_refusals((pod, self._find_rule(pod, waiting) or self._find_bar(pod, waiting)) for pod in bound)
        return "no permitted evictions would free its cards" + (f" ({refusals})" if refusals else "")

    @staticmethod
    def _find_bar(pod: CardPod, waiting: CardPod) -> str:
        only_moved = pod.priority >= waiting.priority or not waiting.preempts
        return "its priority is not lower, so it may only move to another node" if only_moved else ""

    def _find_excess(self, found: Iterable[Candidate]) -> set[str]:
        pods = [*self._gone.values(), *(each.holder.pod for each in found)]
        labels = {pod.uid: self._cluster.pods[pod.uid].metadata.labels or {} for pod in pods}
        return self._cluster.budgets.find_excess((pod, labels[pod.uid]) for pod in pods) - self._gone.keys()

    @staticmethod
    def _must_stay(victim: Candidate, trial: _Trial, pod: CardPod) -> bool:
        """Return whether a pod must not be evicted, because it may only be moved, but fits on no other node."""
        return victim.uid not in trial.placed and (victim.priority >= pod.priority or not pod.preempts)

    def _try(self, pending: Pending, request: PodRequest, node: str, victims: Iterable[Candidate]) -> _Trial | None:
        """Evict the victims in the ledger, then place the pod and all replacements; None if the pod does not fit."""
        ledger, trial = self._cluster.ledger, _Trial()
        bound = {each.ref.uid: each for each in self._cluster.feed.list_bound(node)}
        for victim in victims:
            if (held := ledger.find_holding(victim.uid)) is None:
                self._undo(trial)
                return None
            trial.gone.append((held, bound[victim.uid]))
            ledger.release(victim.uid)
        if not self._place(pending.pod, node, request):
            self._undo(trial)
            return None
        trial.placed.append(pending.pod.ref.uid)
        for held, pod in trial.gone:
            replacement = pod.read_request(ledger.unit_bytes or 0)
            if replacement is not None and held.pod.uid not in self._cluster.unread:
                replacement = ledger.namespaces.rules.close(replacement, pod.ref.namespace, pod.priority)
                nodes = self._list_suiting(held.pod.uid)
                if any(self._place(pod, other, replacement) for other in nodes):
                    trial.placed.append(held.pod.uid)
        return trial

    def _undo(self, trial: _Trial) -> None:
        for uid in trial.placed:
            self._cluster.ledger.release(uid)
        for held, _ in trial.gone:
            self._cluster.ledger.restore(held)

    def _place(self, pod: CardPod, node: str, request: PodRequest) -> bool:
        try:
            self._cluster.ledger.reserve(pod.ref, node, request, self._policy, pod.labels)
        except MisfitError:
            return False
        return True

    def _list_suiting(self, uid: str) -> list[str]:
        """Return the names of the nodes that are suitable for a pod, regardless of their cards, sorted."""
        cluster, pod = self._cluster, self._cluster.pods[uid]
        found = []
        for name in sorted(cluster.nodes):
            entry = cluster.ledger.find_node(name)
            if entry is None or entry.problem is not None:
                continue
            room, added = cluster.feed.measure_room(name, self._gone), self._added.get(name, NOTHING)
            left = HostAmounts(room.cpu_milli - added.cpu_milli, room.memory_bytes - added.memory_bytes)
            if pod.suits(cluster.nodes[name], left):
                found.append(name)
        return found

    def _build_step(self, pending: Pending, node: str, victims: Iterable[Candidate]) -> PlannedPlacement:
        ref, ledger = pending.pod.ref, self._cluster.ledger
        self._add(ref.uid, node)
        evictions = []
        for each in victims:
            held = ledger.find_holding(each.uid)
            where, pod = held.node if held is not None else "", each.holder.pod
            if where:
                self._add(each.uid, where)
            evictions.append(Eviction(pod.namespace, pod.name, pod.uid, each.priority, node, where))
        return PlannedPlacement(ref.namespace, ref.name, ref.uid, pending.pod.priority, node, tuple(evictions))

    def _add(self, uid: str, node: str) -> None:
        amounts = read_pod_amounts(self._cluster.pods[uid].spec)
        self._added[node] = self._added.get(node, NOTHING) + amounts
