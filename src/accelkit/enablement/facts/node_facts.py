"""What is known of each node, put together from lists: of nodes, of accelkit's pods, of reports of kernel caches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from accelkit.enablement.facts.node_state import build_state, read_inventory
from accelkit.enablement.facts.objects import NodeDetails, OwnPod
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.facts.watched import Watched
from accelkit.errors import InventoryError
from accelkit.gkm.objects import CacheNode
from accelkit.model.inventory import Inventory
from accelkit.model.keys import STAGES_ANNOTATION
from accelkit.model.stage import NodeState, StageRecord, read_record


@dataclass(frozen=True, kw_only=True, slots=True)
class Holders:
    """Who else holds something of a node, by titles for people; empty for nobody.

    Attributes:
        cards: who owns its cards, or manages it.
        driver: who loads the driver of its cards.
    """

    cards: str = ""
    driver: str = ""


NOBODY: Final = Holders()


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterFacts:
    """The lists.

    Attributes:
        namespace: where accelkit runs.
        nodes: those to judge.
        pods: accelkit's own.
        caches: what the agents of kernel caches report; None where the API server does not define it.
        watched: what has metrics collected, and what the agents show; None where monitoring is not installed.
        holders: who else holds something of a node, by its name.
        driver_mode: how accelkit brings drivers to nodes, where somebody said it; empty where nobody did.
        named: names of nodes that somebody asked for.
    """

    namespace: str
    nodes: Sequence[NodeDetails] | Unread
    pods: Sequence[OwnPod] | Unread
    caches: Sequence[CacheNode] | Unread | None = None
    watched: Watched | Unread | None = None
    holders: Mapping[str, Holders] = field(default_factory=dict)
    driver_mode: str = ""
    named: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeFacts:
    """What is known of one node.

    Attributes:
        namespace: where accelkit runs.
        node: as the API server has it.
        inventory: of its cards; why it cannot be read; None where there is none.
        state: the one it is in.
        record: results of the checks that did work there; None where they cannot be read.
        pods: accelkit's own on the node.
        caches: reports of kernel caches of the node; None where these are not installed.
        watched: what has metrics collected, and what the agents show; None where monitoring is not installed.
        holders: who else holds something of the node.
        driver_mode: how accelkit brings drivers to nodes; empty where nobody said it.
        named: whether somebody asked for this very node.
    """

    namespace: str
    node: NodeDetails
    inventory: Inventory | InventoryError | None
    state: NodeState
    record: StageRecord | None
    pods: Sequence[OwnPod] | Unread
    caches: Sequence[CacheNode] | Unread | None
    watched: Watched | Unread | None
    holders: Holders
    driver_mode: str
    named: bool

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name

    @property
    def cards(self) -> Inventory:
        """The inventory of a node that has been discovered.

        Raises:
            InventoryError: it has none that can be read, so that no stage but the first may ask.
        """
        if isinstance(self.inventory, Inventory):
            return self.inventory
        raise self.inventory or InventoryError(f"node {self.name} has no inventory")

    def find_pods(self, component: str) -> Sequence[OwnPod] | Unread:
        """Return the pods of a program that runs on each node, on this one."""
        if isinstance(self.pods, Unread):
            return self.pods
        return [pod for pod in self.pods if pod.component == component and pod.of_daemon_set and pod.current]


def list_node_facts(cluster: ClusterFacts) -> Iterator[NodeFacts]:
    """Yield what is known of each node, by name."""
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
            watched=cluster.watched,
            holders=cluster.holders.get(name, NOBODY),
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
        # Its name is the node's, and only that node's agent may write it.
        found[each.metadata.name].append(each)
    return found
