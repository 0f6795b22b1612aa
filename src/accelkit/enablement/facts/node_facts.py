"""Facts about each node, derived from lists of nodes, accelkit's pods, and kernel cache reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from accelkit.enablement.facts.node_state import build_state, read_inventory
from accelkit.enablement.facts.objects import NodeDetails, OwnPod
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.facts.watched import Monitoring
from accelkit.errors import InventoryError
from accelkit.gkm.objects import CacheNode
from accelkit.model.inventory import Inventory
from accelkit.model.keys import STAGES_ANNOTATION
from accelkit.model.stage import NodeState, StageRecord, read_record


@dataclass(frozen=True, kw_only=True, slots=True)
class Holders:
    """Titles of the other owners of a node's cards and driver; empty if there are no other owners.

    Attributes:
        cards: the owners of the cards, or the systems that manage the node.
        driver: the owners of the driver of the cards.
    """

    cards: str = ""
    driver: str = ""


NO_HOLDERS: Final = Holders()


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterFacts:
    """The lists from which the facts are derived.

    Attributes:
        namespace: accelkit's namespace.
        nodes: the nodes to evaluate.
        pods: accelkit's own pods.
        caches: the reports of the cache agents; None if the API server does not serve this kind.
        monitoring: the monitoring configuration of the cluster and the metrics of the agents; None if monitoring is not
            installed.
        holders: the other owners of each node, by node name.
        driver_mode: the mode in which accelkit installs drivers; empty if the mode is unknown.
        named: names of nodes that the user requested.
    """

    namespace: str
    nodes: Sequence[NodeDetails] | Unread
    pods: Sequence[OwnPod] | Unread
    caches: Sequence[CacheNode] | Unread | None = None
    monitoring: Monitoring | Unread | None = None
    holders: Mapping[str, Holders] = field(default_factory=dict)
    driver_mode: str = ""
    named: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeFacts:
    """The facts about one node.

    Attributes:
        namespace: accelkit's namespace.
        node: the Node object.
        inventory: the inventory of the node's cards, or the error if it is unreadable; None if it is missing.
        state: the current state of the node.
        record: the results of the checks with pods; None if the results cannot be read.
        pods: accelkit's own pods on the node.
        caches: the reports about the node's kernel caches; None if kernel caches are not installed.
        monitoring: the monitoring configuration of the cluster and the metrics of the agents; None if monitoring is not
            installed.
        holders: the other owners of the node's cards and driver.
        driver_mode: the mode in which accelkit installs drivers; empty if the mode is unknown.
        named: whether the user requested this node by name.
    """

    namespace: str
    node: NodeDetails
    inventory: Inventory | InventoryError | None
    state: NodeState
    record: StageRecord | None
    pods: Sequence[OwnPod] | Unread
    caches: Sequence[CacheNode] | Unread | None
    monitoring: Monitoring | Unread | None
    holders: Holders
    driver_mode: str
    named: bool

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name

    @property
    def cards(self) -> Inventory:
        """The inventory of a node that has passed the stage `discover`.

        Raises:
            InventoryError: the node does not have a readable inventory. Only the first stage handles this case.
        """
        if isinstance(self.inventory, Inventory):
            return self.inventory
        raise self.inventory or InventoryError(f"node {self.name} has no inventory")

    def find_pods(self, component: str) -> Sequence[OwnPod] | Unread:
        """Return the pods on this node that belong to one of accelkit's DaemonSets."""
        if isinstance(self.pods, Unread):
            return self.pods
        return [pod for pod in self.pods if pod.component == component and pod.of_daemon_set and pod.current]


def list_node_facts(cluster: ClusterFacts) -> Iterator[NodeFacts]:
    """Yield the facts about each node, ordered by node name."""
    pods = _group_pods(cluster.pods)
    caches = _group_caches(cluster.caches)
    nodes = () if isinstance(cluster.nodes, Unread) else cluster.nodes
    for node in sorted(nodes, key=lambda each: each.metadata.name):
        name = node.metadata.name
        inventory = read_inventory(node)
        yield NodeFacts(
            namespace=cluster.namespace,
            node=node,
            inventory=inventory,
            state=build_state(node, inventory),
            record=read_record(node.find_annotation(STAGES_ANNOTATION)),
            pods=pods if isinstance(pods, Unread) else pods.get(name, []),
            caches=caches if isinstance(caches, Unread | None) else caches.get(name, []),
            monitoring=cluster.monitoring,
            holders=cluster.holders.get(name, NO_HOLDERS),
            driver_mode=cluster.driver_mode,
            named=name in cluster.named,
        )


def _group_pods(pods: Sequence[OwnPod] | Unread) -> Mapping[str, Sequence[OwnPod]] | Unread:
    if isinstance(pods, Unread):
        return pods
    found: defaultdict[str, list[OwnPod]] = defaultdict(list)
    for pod in pods:
        found[pod.spec.node_name].append(pod)
    return found


def _group_caches(caches: Sequence[CacheNode] | Unread | None) -> Mapping[str, Sequence[CacheNode]] | Unread | None:
    if isinstance(caches, Unread | None):
        return caches
    found: defaultdict[str, list[CacheNode]] = defaultdict(list)
    for each in caches:
        # The report is named after its node, and only that node's agent may write it.
        found[each.metadata.name].append(each)
    return found
