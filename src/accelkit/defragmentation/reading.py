"""Reads the cluster from the API server, for a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from accelkit.defragmentation.suitability import PlannedNode, PlannedPod
from accelkit.errors import ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.disruptions.budgets import DisruptionBudgets, read_disruption_budgets
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES, PODS
from accelkit.kube.scheduling.conditions import list_unread_conditions
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import Pod
from accelkit.vendors.dialects import ADVERTISED_ANNOTATION, list_served_dialects

# By which a pod counts in budgets, of the longest that are kept; more is no pod that somebody runs.
_MOST_LABELS: Final = 256


@dataclass(frozen=True, slots=True)
class ReadCluster:
    """A cluster as it was when it was read.

    Attributes:
        ledger: who holds what; a copy of nobody's, so it may be changed.
        feed: knows the pods that wait.
        nodes: by name.
        pods: those with cards, by UID.
        unread: what of them only kube-scheduler can judge, by UID.
        budgets: whom nobody may evict.
    """

    ledger: Ledger
    feed: LedgerFeed
    nodes: dict[str, PlannedNode]
    pods: dict[str, PlannedPod]
    unread: dict[str, str]
    budgets: DisruptionBudgets


async def read_cluster(api: ApiClient) -> ReadCluster:
    """Read nodes, pods and disruption budgets.

    Raises:
        ApiError: the API server refused or did not answer.
        ServiceError: no node shares cards.
    """
    nodes, _ = await list_all(api, NODES, PlannedNode)
    dialects = list_served_dialects(each.find_annotation(ADVERTISED_ANNOTATION) or "" for each in nodes)
    ledger = Ledger()
    LedgerFeed(ledger, dialects).replace_nodes(list(nodes))
    ledger = Ledger(unit_bytes=_find_unit(ledger))
    feed = LedgerFeed(ledger, dialects)
    feed.replace_nodes(list(nodes))
    known = frozenset().union(*(dialect.resources.names for dialect in dialects))
    unread: dict[str, str] = {}

    def trim(pod: PlannedPod) -> None:
        conditions, labels = list_unread_conditions(pod.spec, known), pod.metadata.labels
        if conditions:
            unread[pod.metadata.uid] = ", ".join(conditions)
        feed.trim_pod(pod)
        if len(labels or ()) <= _MOST_LABELS:
            pod.metadata.labels = labels

    pods, _ = await list_all(api, PODS, PlannedPod, trim=trim)
    seen: list[Pod] = list(pods)
    feed.replace_pods(seen)
    budgets = await read_disruption_budgets(api)
    by_name = {node.metadata.name: node for node in nodes}
    return ReadCluster(ledger, feed, by_name, {pod.metadata.uid: pod for pod in pods}, unread, budgets)


def _find_unit(ledger: Ledger) -> int:
    """Return the unit that most nodes have: that of the cluster, but for nodes that change theirs."""
    units = Counter(entry.inventory.unit_bytes for entry in ledger.list_nodes() if entry.inventory is not None)
    if not units:
        raise ServiceError("no node shares cards", next_step="`accelkit inspect` lists the nodes with cards")
    return units.most_common(1)[0][0]
