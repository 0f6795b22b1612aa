"""Reader of the cluster data that is required for a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.defragmentation.suitability import PlannedPod
from accelkit.errors import ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.disruptions.budgets import DisruptionBudgets, read_disruption_budgets
from accelkit.kube.listing import list_all
from accelkit.kube.paths import NODES, PODS
from accelkit.kube.scheduling.conditions import find_requested_resources, list_unread_conditions
from accelkit.kube.views.scheduling import SchedulingNode
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.keys import ADVERTISED_ANNOTATION, ASSIGNMENT_ANNOTATION
from accelkit.model.pod import Pod
from accelkit.placement.sharing.rules import SharingRules
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.dialects import list_served_dialects, load_dialects, load_usable_dialects
from accelkit.vendors.pod_reading import PodReader

# The maximum number of labels to store for each pod, for disruption budgets. Real pods have fewer labels.
_MOST_LABELS: Final = 256


@dataclass(frozen=True, slots=True)
class ReadCluster:
    """The data of a cluster for a plan.

    Attributes:
        ledger: the ledger. Only the planner uses it, so that the planner can modify it.
        feed: the feed of this ledger, which contains the pending pods.
        nodes: the nodes, by name.
        pods: the pods that use or request cards, by UID.
        unread: the scheduling conditions of these pods that only kube-scheduler can evaluate, by pod UID.
        budgets: the disruption budgets.
    """

    ledger: Ledger
    feed: LedgerFeed
    nodes: dict[str, SchedulingNode]
    pods: dict[str, PlannedPod]
    unread: dict[str, str]
    budgets: DisruptionBudgets


async def read_cluster(api: ApiClient, named: Collection[str] = (), rules: SharingRules | None = None) -> ReadCluster:
    """Read nodes, pods and disruption budgets.

    Args:
        api: an open client.
        named: the dialects that are used to read pods. If it is empty, these are the dialects that the agents serve and
            the dialects of the assignments on bound pods.
        rules: the sharing rules; None if there are none.

    Raises:
        ApiError: the API server rejected the request or did not respond.
        ServiceError: no node shares cards.
    """
    nodes, _ = await list_all(api, NODES, SchedulingNode)
    readable = load_dialects(named) if named else load_usable_dialects()
    reading = _PodReading(readable)
    pods, _ = await list_all(api, PODS, PlannedPod, trim=reading.trim)
    dialects = readable
    if not named:
        served = list_served_dialects(each.find_annotation(ADVERTISED_ANNOTATION) or "" for each in nodes)
        dialects = tuple(each for each in readable if each in served or each.name in reading.written)
    ledger = Ledger()
    LedgerFeed(ledger, dialects).replace_nodes(list(nodes))
    ledger = Ledger(unit_bytes=_find_unit(ledger))
    feed = LedgerFeed(ledger, dialects)
    if rules is not None:
        feed.take_rules(rules)
    feed.replace_nodes(list(nodes))
    widened: list[Pod] = list(pods)
    feed.replace_pods(widened)
    budgets = await read_disruption_budgets(api)
    by_name = {node.metadata.name: node for node in nodes}
    unread = reading.list_unread(frozenset().union(*(dialect.resources.names for dialect in dialects)))
    return ReadCluster(ledger, feed, by_name, {pod.metadata.uid: pod for pod in pods}, unread, budgets)


class _PodReading:
    """Data about pods, which is recorded before most fields of each pod are discarded.

    Attributes:
        written: the names of the dialects in which bound pods have assignments.
    """

    def __init__(self, dialects: Sequence[Dialect]) -> None:
        self.written: set[str] = set()
        self._dialects, self._reader = dialects, PodReader(dialects)
        self._known = frozenset().union(*(dialect.resources.names for dialect in dialects))
        self._conditions: dict[str, list[str]] = {}
        self._requested: dict[str, frozenset[str]] = {}

    def trim(self, pod: PlannedPod) -> None:
        """Record the data of a pod that is required for the plan, and remove all other data from the pod."""
        uid, labels = pod.metadata.uid, pod.metadata.labels
        self._conditions[uid] = list_unread_conditions(pod.spec, self._known)
        self._requested[uid] = self._known & find_requested_resources(pod.spec)
        if pod.spec.node_name:
            keys = (pod.metadata.annotations or {}).keys()
            self.written.update(
                each.name
                for each in self._dialects
                if not keys.isdisjoint((ASSIGNMENT_ANNOTATION, *each.assignment_keys))
                and not self._requested[uid].isdisjoint(each.resources.requestable)
            )
        self._reader.trim(pod)
        if len(labels or ()) <= _MOST_LABELS:
            pod.metadata.labels = labels

    def list_unread(self, known: frozenset[str]) -> dict[str, str]:
        """Return the conditions that only kube-scheduler can evaluate, by pod UID, given the cluster's resources."""
        found = {}
        for uid, conditions in self._conditions.items():
            others = ["other resources"] if self._requested[uid] - known and "other resources" not in conditions else []
            if conditions or others:
                found[uid] = ", ".join([*conditions, *others])
        return found


def _find_unit(ledger: Ledger) -> int:
    """Return the unit of most nodes, which is the unit of the cluster. Other units occur only during a unit change."""
    units = Counter(entry.inventory.unit_bytes for entry in ledger.list_nodes() if entry.inventory is not None)
    if not units:
        raise ServiceError("no node shares cards", next_step="list the nodes with cards by `accelkit inspect`")
    return units.most_common(1)[0][0]
