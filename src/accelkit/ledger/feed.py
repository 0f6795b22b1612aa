"""From what the API server shows to the ledger: the one place where pods and nodes become holdings and cards.

It takes lists and single events in any order the API server can produce. An assignment on a pod that is not bound says
nothing and is ignored; a bound pod that asks for cards without a readable assignment is charged in the worst way.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from accelkit.errors import AssignmentError, InventoryError, RequestError
from accelkit.ledger.holding import Holding, PodRef, Stage, Unassigned
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import ASSIGNMENT_ANNOTATION, Assignment, decode_assignment
from accelkit.model.cordon import cordoned, with_cordon
from accelkit.model.inventory import INVENTORY_ANNOTATION, Inventory, decode_inventory
from accelkit.model.pod import ConfigMap, Node, Pod
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.model.units import MAX_AMOUNT, WHOLE_COMPUTE
from accelkit.placement.misfit import Reason
from accelkit.vendors.dialects import Dialect
from accelkit.vendors.requests import asks_for_cards, containers_in_order, dialect_of, holders, read_request
from accelkit.vendors.takeover import written_by_others

log = logging.getLogger(__name__)

DEFAULT_UNIT_BYTES = 2**30
# What a pod may hold whose limits make no sense to us, but perhaps to its kubelet: all there is.
_EVERYTHING = PodRequest(
    (
        ContainerRequest("", Kind.APP, 1, memory_bytes=MAX_AMOUNT, compute=WHOLE_COMPUTE),
        ContainerRequest("", Kind.APP, 1, whole=True),
    )
)


@dataclass(frozen=True, slots=True)
class Pending:
    """A pod that waits for a node, and the dialect it speaks; `problem` where its request cannot be granted.

    `containers` are the names of its app containers, in their order.
    """

    pod: PodRef
    request: PodRequest | None
    dialect: Dialect
    problem: str = ""
    containers: tuple[str, ...] = ()


def pod_ref(pod: Pod) -> PodRef:
    """Return the identity of a pod."""
    return PodRef(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)


class LedgerFeed:
    """Keeps a ledger up to date with nodes and pods, and remembers the pods that wait.

    Args:
        ledger: what is kept up to date.
        dialects: whose resource names count.
    """

    def __init__(self, ledger: Ledger, dialects: Sequence[Dialect]) -> None:
        self._ledger = ledger
        self._dialects = dialects
        self._inventories: dict[str, tuple[str, frozenset[str]]] = {}
        self._withheld: dict[str, frozenset[str]] = {}
        # Pods with nothing of ours on them, by node: what others wrote there needs the node's cards to be understood.
        self._foreign: dict[str, dict[str, Pod]] = {}
        self.pending: dict[str, Pending] = {}
        # When each bound pod was created, for those who ask in another system's words.
        self.created: dict[str, str] = {}

    def replace_nodes(self, nodes: list[Node]) -> None:
        """Take over a complete list of nodes."""
        for node in nodes:
            self._put_node(node)
        self._ledger.keep_nodes(node.metadata.name for node in nodes)

    def node_event(self, kind: str, node: Node) -> None:
        """Take over one change of a node."""
        if kind == "DELETED":
            self._inventories.pop(node.metadata.name, None)
            self._ledger.drop_node(node.metadata.name)
        else:
            self._put_node(node)

    def replace_config_maps(self, maps: list[ConfigMap]) -> None:
        """Take over a complete list of the ConfigMaps in which another system lists the bad cards of nodes."""
        withheld = dict(found for each in maps if (found := self._bad_cards(each)))
        for name in withheld.keys() | self._withheld.keys():
            self._withhold(name, withheld.get(name, frozenset()))

    def config_map_event(self, kind: str, config_map: ConfigMap) -> None:
        """Take over one change of such a ConfigMap."""
        if (found := self._bad_cards(config_map)) is not None:
            self._withhold(found[0], frozenset() if kind == "DELETED" else found[1])

    def _bad_cards(self, config_map: ConfigMap) -> tuple[str, frozenset[str]] | None:
        for dialect in self._dialects:
            before, mark, after = dialect.unhealthy_cards.partition("{node}")
            name = config_map.metadata.name
            if mark and name.startswith(before) and name.endswith(after):
                words = (word.strip() for word in (config_map.data or {}).get("gpus", "").split(","))
                return name.removeprefix(before).removesuffix(after), frozenset(word for word in words if word)
        return None

    def _withhold(self, name: str, words: frozenset[str]) -> None:
        if self._withheld.get(name, frozenset()) == words:
            return
        self._withheld[name] = words
        if (seen := self._inventories.get(name)) is not None:
            self._ledger.put_node(name, _inventory(seen[0], self._words(name), name))

    def replace_pods(self, pods: list[Pod]) -> list[Holding]:
        """Take over a complete list of pods; return the holdings younger than the list, to be asked for one by one."""
        self.pending.clear()
        self._foreign.clear()
        self.created.clear()
        for pod in pods:
            self._put_pod(pod)
        return self._ledger.keep_pods(p.metadata.uid for p in pods if p.spec.node_name and not p.terminal)

    def pod_event(self, kind: str, pod: Pod) -> None:
        """Take over one change of a pod."""
        if kind == "DELETED":
            self._end(pod)
        else:
            self._put_pod(pod)

    def pod_read(self, pod: Pod) -> None:
        """Take over a pod that was read by itself: it may be newer than what the watch has shown, and the next list."""
        self._put_pod(pod, Stage.BOUND)

    def request_of(self, pod: Pod, node: str = "") -> PodRequest | None:
        """Read a pod's request in the unit of the node that it is bound to, else in the cluster's.

        Raises:
            RequestError: it asks for what cannot be granted as written.
        """
        entry = self._ledger.node(node)
        known = entry.inventory.unit_bytes if entry and entry.inventory else self._ledger.unit_bytes
        unit_bytes = known or DEFAULT_UNIT_BYTES
        return read_request(pod, self._dialects, unit_bytes)

    def _put_node(self, node: Node) -> None:
        name = node.metadata.name
        if self._put_inventory(node):
            for pod in list(self._foreign.get(name, {}).values()):
                self._put_pod(pod)

    def _put_inventory(self, node: Node) -> bool:
        """Take over a node's cards; False where nothing has changed."""
        name, text = node.metadata.name, node.annotation(INVENTORY_ANNOTATION)
        if text is None:
            self._inventories.pop(name, None)
            self._ledger.put_node(name, None)
        elif self._inventories.get(name) != (seen := (text, self._cordon(node))) or self._is_gone(name):
            self._inventories[name] = seen
            self._ledger.put_node(name, _inventory(text, self._words(name), name))
            return True
        return False

    def _cordon(self, node: Node) -> frozenset[str]:
        labels = node.metadata.labels or {}
        marks = [dialect.disabled_cards for dialect in self._dialects if dialect.disabled_cards]
        return cordoned(node) | {key.partition(mark)[2] for key in labels for mark in marks if mark in key}

    def _words(self, name: str) -> frozenset[str]:
        return self._inventories[name][1] | self._withheld.get(name, frozenset())

    def _is_gone(self, name: str) -> bool:
        entry = self._ledger.node(name)
        return entry is None or (entry.problem is not None and entry.problem.reason is Reason.UNKNOWN_NODE)

    def _put_pod(self, pod: Pod, stage: Stage = Stage.CONFIRMED) -> None:
        uid = pod.metadata.uid
        if pod.terminal:
            self._end(pod)
        elif not asks_for_cards(pod, self._dialects):
            return
        elif not pod.spec.node_name:
            self.pending[uid] = self.waiting(pod)
        else:
            self.pending.pop(uid, None)
            self._put_bound(pod, stage)

    def _end(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.pending.pop(uid, None)
        self.created.pop(uid, None)
        self._forget(pod)
        self._ledger.release(uid)

    def waiting(self, pod: Pod) -> Pending:
        """Return what a pod without a node waits for."""
        dialect = dialect_of(pod, self._dialects)
        try:
            return Pending(pod_ref(pod), self.request_of(pod), dialect, containers=_app_containers(pod))
        except RequestError as exc:
            return Pending(pod_ref(pod), None, dialect, str(exc))

    def _put_bound(self, pod: Pod, stage: Stage) -> None:
        ref, node = pod_ref(pod), pod.spec.node_name
        self.created[ref.uid] = pod.metadata.creation_timestamp or ""
        assignment, problem = self._assignment(pod)
        if assignment is None:
            assignment, problem = self._by_others(pod, problem)
        else:
            self._forget(pod)
        if assignment is not None:
            order = [(container.name, kind) for container, kind in containers_in_order(pod)]
            self._ledger.confirm(ref, node, assignment, order, stage)
            return
        try:
            request = self.request_of(pod, node)
        except RequestError as exc:
            # Bound past us with a request we would have refused; the kubelet goes by the limits alone.
            request, problem = self._by_limits(pod, node), str(exc)
        if request is not None:
            log.warning("pod %s is bound to %s without a usable assignment: %s", ref, node, problem)
            self._ledger.confirm_unassigned(Unassigned(ref, node, request, problem))

    def _forget(self, pod: Pod) -> None:
        """Forget what another system wrote on a pod."""
        if (held := self._foreign.get(pod.spec.node_name)) is not None:
            held.pop(pod.metadata.uid, None)

    def _by_others(self, pod: Pod, problem: str) -> tuple[Assignment | None, str]:
        """Return what another system wrote on the pod, else why nothing is known."""
        node = pod.spec.node_name
        self._foreign.setdefault(node, {})[pod.metadata.uid] = pod
        entry = self._ledger.node(node)
        if pod.annotation(ASSIGNMENT_ANNOTATION) is not None or entry is None or entry.inventory is None:
            return None, problem
        try:
            unit_bytes = entry.inventory.unit_bytes
            found = written_by_others(pod, self._dialects, entry.cards(), unit_bytes)
        except AssignmentError as exc:
            return None, str(exc)
        return found, problem

    def _assignment(self, pod: Pod) -> tuple[Assignment | None, str]:
        text = pod.annotation(ASSIGNMENT_ANNOTATION)
        if text is None:
            return None, "it has none"
        try:
            assignment = decode_assignment(text)
        except AssignmentError as exc:
            return None, str(exc)
        # Anybody who may write the pod can write this annotation. Amounts are not compared: they were fixed in the unit
        # of their time.
        for container, resource, whole in holders(pod, self._dialects):
            shares = assignment.containers.get(container, ())
            if not any(share.whole is whole for share in shares):
                return None, f"its assignment gives container {container} no {resource}"
        return assignment, ""

    def _by_limits(self, pod: Pod, node: str) -> PodRequest | None:
        bare = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=None))
        try:
            return self.request_of(bare, node)
        except RequestError:
            return _EVERYTHING


def _app_containers(pod: Pod) -> tuple[str, ...]:
    return tuple(container.name for container in pod.spec.containers)


def _inventory(text: str, cordon: frozenset[str], node: str) -> Inventory | InventoryError:
    try:
        inventory = decode_inventory(text)
        return msgspec.structs.replace(inventory, cards=with_cordon(inventory.cards, cordon))
    except InventoryError as exc:
        log.warning("inventory of node %s is unknown: %s", node, exc)
        return exc
