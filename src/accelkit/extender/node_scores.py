"""Node scores for the prioritize verb, from 0 to 10, cached until the nodes change."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import numpy as np

from accelkit.extender.wire import HostPriority
from accelkit.ledger.holding import NodeEntry
from accelkit.ledger.ledger import Ledger
from accelkit.ledger.link_scores import LinkScores
from accelkit.ledger.packed_names import PackedNames
from accelkit.ledger.priorities import Costs, FragmentationCosts, Rows
from accelkit.model.request import PodRequest
from accelkit.placement.mix import TaskMix, TaskType
from accelkit.placement.plugged_policies import PluggedPolicy
from accelkit.placement.policies import MAX_SCORE, AnyPolicy, Policy, score_node

# Number of request shapes whose scores are cached.
_MOST_SHAPES: Final = 32


class NodeScores:
    """Scores of all nodes for every policy.

    Args:
        ledger: the ledger that contains the nodes.
        mix: the task mix, which another component updates.
    """

    def __init__(self, ledger: Ledger, mix: TaskMix) -> None:
        self._ledger = ledger
        self._names = PackedNames(ledger)
        self._costs = FragmentationCosts(ledger.table, mix)
        self._kept: OrderedDict[object, _KeptScores] = OrderedDict()

    def rank(
        self, names: list[str], request: PodRequest, policy: AnyPolicy, task: TaskType | None
    ) -> list[HostPriority]:
        """Return the scores of the given nodes; nodes that are unknown to the ledger score 0.

        Args:
            names: the names of nodes that the pod fits.
            request: the request of the pod.
            policy: the policy that scores the nodes.
            task: the type of the pod in the task mix.
        """
        if policy is Policy.FRAGMENTATION and task is not None:
            return self._rank_by_cost(names, task)
        scores = self._find(request, policy).by_name
        try:
            return list(map(scores.__getitem__, names))
        except KeyError:
            return [scores.get(name) or HostPriority(name, 0) for name in names]

    def choose(
        self, names: list[str], most: int, request: PodRequest, policy: AnyPolicy, task: TaskType | None
    ) -> list[str]:
        """Return the best nodes for the policy; among equal nodes, the node with the lowest row number is preferred.

        Args:
            names: the names of nodes that the pod fits, all known to the ledger.
            most: the maximum number of nodes.
            request: the request of the pod.
            policy: the policy that scores the nodes.
            task: the type of the pod in the task mix.
        """
        rows = self._names.find_rows(names)
        if policy is Policy.FRAGMENTATION and task is not None:
            costs = self._costs.measure(task, rows)
        elif policy in {Policy.BINPACK, Policy.SPREAD}:
            used = self._ledger.table.used_fraction[rows]
            costs = used if policy is Policy.SPREAD else -used
        else:
            costs = -self._find(request, policy).by_row[rows]
        return [names[place] for place in _find_least(costs, rows, most).tolist()]

    def _rank_by_cost(self, names: list[str], task: TaskType) -> list[HostPriority]:
        """Return scores relative to the nodes of the query: 10 for the best node, and 0 for the worst."""
        rows = self._names.find_rows(names)
        known = rows >= 0
        scores = np.zeros(len(names), dtype=np.int64)
        if known.any():
            costs = self._costs.measure(task, rows[known])
            best, worst = float(costs.min()), float(costs.max())
            part = (worst - costs) / (worst - best) if worst > best else np.ones(len(costs))
            # Only the best nodes get the highest score; rounding must not give it to other nodes.
            scores[known] = np.where(costs == best, MAX_SCORE, np.floor(part * (MAX_SCORE - 1) + 0.5))
        return list(map(HostPriority, names, scores.tolist()))

    def _find(self, request: PodRequest, policy: AnyPolicy) -> _KeptScores:
        # Scores of the topology policy depend on the request and the node, other scores only on the node.
        key = policy, request if policy is Policy.TOPOLOGY else None
        if key not in self._kept and len(self._kept) >= _MOST_SHAPES:
            self._kept.popitem(last=False)
        found = self._kept.setdefault(key, _KeptScores(*key))
        self._kept.move_to_end(key)
        found.refresh(self._ledger, self._names)
        return found


def _find_least(costs: Costs, rows: Rows, most: int) -> Rows:
    """Return the positions of the lowest costs in ascending order; equal costs are ordered by row.

    An arbitrary choice among equal costs would distribute pods over equivalent nodes.
    """
    places = np.arange(len(costs))
    if most < len(costs):
        # Select all nodes up to the cost of the last required node; thousands of nodes may have this cost.
        last = np.partition(costs, most - 1)[most - 1]
        below, equal = places[costs < last], places[costs == last]
        wanted = most - len(below)
        if wanted < len(equal):
            equal = equal[np.argpartition(rows[equal], wanted - 1)[:wanted]]
        places = np.concatenate((below, equal))
    return places[np.lexsort((rows[places], costs[places]))]


class _KeptScores:
    """Score of each node for one policy.

    Args:
        policy: the policy that scores the nodes.
        request: the request of the pod; None if the scores depend only on the nodes.

    Attributes:
        by_name: the scores in kube-scheduler's format, by node name.
        by_row: the same scores by row of the table.
    """

    def __init__(self, policy: AnyPolicy, request: PodRequest | None) -> None:
        self._policy, self._links = policy, None if request is None else LinkScores(request)
        self.by_name: dict[str, HostPriority] = {}
        self.by_row: Costs = np.zeros(0)
        self._tick = -1
        self._epoch = 0

    def refresh(self, ledger: Ledger, packed: PackedNames) -> None:
        """Score the nodes that changed since the last call."""
        table = ledger.table
        if self._epoch != table.epoch:
            self.by_name, self._tick, self._epoch = {}, -1, table.epoch
        rows = [] if self._links is None else self._links.begin()
        if self._tick != table.tick:
            rows = [*rows, *table.find_changed_rows(self._tick).tolist()]
        if len(self.by_row) < table.rows:
            self.by_row = np.concatenate((self.by_row, np.zeros(2 * table.rows - len(self.by_row))))
        names = packed.list_names()
        for row in rows:
            if (entry := ledger.find_node_at(row)) is not None:
                score = self._score(entry, float(table.used_fraction[row]))
                self.by_name[names[row]], self.by_row[row] = HostPriority(names[row], score), score
        self._tick = table.tick

    def _score(self, entry: NodeEntry, used_fraction: float) -> int:
        if isinstance(self._policy, PluggedPolicy):
            return self._policy.score_node(entry.list_card_states(), MAX_SCORE)
        if self._links is None:
            return score_node(self._policy, used_fraction)
        return self._links.score(entry, used_fraction)
