"""Feeds the ledger with what the API server shows: the one place where pods and nodes become holdings and cards.

It takes lists and single events in any order the API server can produce. An assignment on a pod that is not bound says
nothing and is ignored; a bound pod that asks for cards without a readable assignment is charged conservatively.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from accelkit.errors import AssignmentError, InventoryError, RequestError
from accelkit.ledger.holding import Holding, Stage, UnassignedPod
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment
from accelkit.model.cordon import apply_cordon, read_cordon
from accelkit.model.inventory import INVENTORY_ANNOTATION, Inventory, decode_inventory
from accelkit.model.pod import ConfigMap, Node, Pod
from accelkit.model.request import ContainerRequest, Kind, PodRequest
from accelkit.model.units import MAX_AMOUNT, WHOLE_COMPUTE
from accelkit.placement.misfit import MisfitReason
from accelkit.vendors.dialects import Dialect
from accelkit.vendors.foreign_assignments import read_foreign_assignment
from accelkit.vendors.pod_reading import CardPod, PodReader

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
    """A pod that waits for a node, and what it asks for in the cluster's unit.

    Attributes:
        request: None where it asks for no card, or what it asks for cannot be granted.
        refusal: why it cannot be granted; None where it can.
    """

    pod: CardPod
    request: PodRequest | None
    refusal: RequestError | None = None


class LedgerFeed:
    """Keeps a ledger up to date with nodes and pods, and remembers the pods that wait.

    Args:
        ledger: what is kept up to date.
        dialects: whose resource names count.
    """

    def __init__(self, ledger: Ledger, dialects: Sequence[Dialect]) -> None:
        self._ledger = ledger
        self._dialects = dialects
        self._reader = PodReader(dialects)
        self._inventories: dict[str, tuple[str, frozenset[str]]] = {}
        self._withheld: dict[str, frozenset[str]] = {}
        # Pods with nothing of ours on them, by node: what others wrote there needs the node's cards to be understood.
        self._foreign: dict[str, dict[str, CardPod]] = {}
        self.pending: dict[str, Pending] = {}
        # When each bound pod was created, for those who ask in another system's words.
        self.created: dict[str, str] = {}

    def replace_nodes(self, nodes: list[Node]) -> None:
        """Take over a complete list of nodes."""
        for node in nodes:
            self._put_node(node)
        self._ledger.keep_nodes(node.metadata.name for node in nodes)

    def take_node_event(self, kind: str, node: Node) -> None:
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

    def take_config_map_event(self, kind: str, config_map: ConfigMap) -> None:
        """Take over one change of such a ConfigMap."""
        if (found := self._bad_cards(config_map)) is not None:
            self._withhold(found[0], frozenset() if kind == "DELETED" else found[1])

    def _bad_cards(self, config_map: ConfigMap) -> tuple[str, frozenset[str]] | None:
        for lists in (dialect.unhealthy_cards for dialect in self._dialects):
            if lists is not None and (node := lists.find_node(config_map.metadata.name)) is not None:
                words = (word.strip() for word in (config_map.data or {}).get(lists.key, "").split(","))
                return node, frozenset(word for word in words if word)
        return None

    def _withhold(self, name: str, words: frozenset[str]) -> None:
        if self._withheld.get(name, frozenset()) == words:
            return
        self._withheld[name] = words
        if (seen := self._inventories.get(name)) is not None:
            self._ledger.put_node(name, _read_inventory(seen[0], self._withheld_cards(name), name))

    def replace_pods(self, pods: list[Pod]) -> list[Holding]:
        """Take over a complete list of pods; return the holdings younger than the list, to be asked for one by one."""
        self.pending.clear()
        self._foreign.clear()
        self.created.clear()
        for pod in pods:
            self._put_pod(pod)
        return self._ledger.keep_pods(p.metadata.uid for p in pods if p.spec.node_name and not p.terminal)

    def take_pod_event(self, kind: str, pod: Pod) -> None:
        """Take over one change of a pod."""
        if kind == "DELETED":
            self._end(pod)
        else:
            self._put_pod(pod)

    def take_pod(self, pod: Pod) -> None:
        """Take over a pod that was read by itself: it may be newer than what the watch has shown, and the next list."""
        self._put_pod(pod, Stage.BOUND)

    def read_pending(self, pod: Pod) -> Pending | None:
        """Read a pod that waits for a node; None where it has nothing to do with cards."""
        found = self._reader.read(pod)
        return None if found is None else self._pending(found)

    def _put_node(self, node: Node) -> None:
        name = node.metadata.name
        if self._put_inventory(node):
            for pod in list(self._foreign.get(name, {}).values()):
                self._put_bound(pod, Stage.CONFIRMED)

    def _put_inventory(self, node: Node) -> bool:
        """Take over a node's cards; False where nothing has changed."""
        name, text = node.metadata.name, node.find_annotation(INVENTORY_ANNOTATION)
        if text is None:
            self._inventories.pop(name, None)
            self._ledger.put_node(name, None)
        elif self._inventories.get(name) != (seen := (text, self._cordon(node))) or self._is_gone(name):
            self._inventories[name] = seen
            self._ledger.put_node(name, _read_inventory(text, self._withheld_cards(name), name))
            return True
        return False

    def _cordon(self, node: Node) -> frozenset[str]:
        labels = node.metadata.labels or {}
        prefixes = [dialect.disabled_cards for dialect in self._dialects if dialect.disabled_cards]
        return read_cordon(node) | {key.partition(prefix)[2] for key in labels for prefix in prefixes if prefix in key}

    def _withheld_cards(self, name: str) -> frozenset[str]:
        return self._inventories[name][1] | self._withheld.get(name, frozenset())

    def _is_gone(self, name: str) -> bool:
        entry = self._ledger.find_node(name)
        return entry is None or (entry.problem is not None and entry.problem.reason is MisfitReason.UNKNOWN_NODE)

    def _put_pod(self, pod: Pod, stage: Stage = Stage.CONFIRMED) -> None:
        if pod.terminal:
            self._end(pod)
            return
        found = self._reader.read(pod)
        if found is None or not found.asks:
            return
        if not found.node:
            self.pending[found.ref.uid] = self._pending(found)
        else:
            self.pending.pop(found.ref.uid, None)
            self._put_bound(found, stage)

    def _end(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self.pending.pop(uid, None)
        self.created.pop(uid, None)
        self._forget_foreign(pod.spec.node_name, uid)
        self._ledger.release(uid)

    def _pending(self, pod: CardPod) -> Pending:
        try:
            return Pending(pod, pod.read_request(self._ledger.unit_bytes or DEFAULT_UNIT_BYTES))
        except RequestError as exc:
            return Pending(pod, None, exc.with_traceback(None))

    def _put_bound(self, pod: CardPod, stage: Stage) -> None:
        self.created[pod.ref.uid] = pod.created_at
        try:
            assignment = self._find_assignment(pod)
        except AssignmentError as exc:
            self._put_unassigned(pod, str(exc))
        else:
            self._ledger.confirm(pod.ref, pod.node, assignment, pod.order, stage)

    def _put_unassigned(self, pod: CardPod, problem: str) -> None:
        unit_bytes = self._unit_bytes(pod.node)
        try:
            request = pod.read_request(unit_bytes)
        except RequestError as exc:
            # Bound past us with a request we would have refused; the kubelet goes by the limits alone.
            request, problem = _request_by_limits(pod, unit_bytes), str(exc)
        if request is not None:
            log.warning("pod %s is bound to %s without a usable assignment: %s", pod.ref, pod.node, problem)
            self._ledger.confirm_unassigned(UnassignedPod(pod.ref, pod.node, request, problem))

    def _unit_bytes(self, node: str) -> int:
        """Return the unit of the node, where it is known, else the cluster's."""
        entry = self._ledger.find_node(node)
        known = entry.inventory.unit_bytes if entry and entry.inventory else self._ledger.unit_bytes
        return known or DEFAULT_UNIT_BYTES

    def _find_assignment(self, pod: CardPod) -> Assignment:
        """Return the assignment that we wrote on a bound pod, else what another system wrote.

        Raises:
            AssignmentError: there is neither, or it cannot be used.
        """
        if isinstance(pod.assignment, Assignment):
            try:
                _check_assignment(pod, pod.assignment)
            except AssignmentError:
                self._remember_foreign(pod)
                raise
            self._forget_foreign(pod.node, pod.ref.uid)
            return pod.assignment
        self._remember_foreign(pod)
        if pod.assignment is not None:
            raise AssignmentError(str(pod.assignment))
        entry = self._ledger.find_node(pod.node)
        if entry is not None and entry.inventory is not None:
            found = read_foreign_assignment(pod, entry.list_cards(), entry.inventory.unit_bytes)
            if found is not None:
                return found
        raise AssignmentError("it has none")

    def _remember_foreign(self, pod: CardPod) -> None:
        self._foreign.setdefault(pod.node, {})[pod.ref.uid] = pod

    def _forget_foreign(self, node: str, uid: str) -> None:
        if (pods := self._foreign.get(node)) is not None:
            pods.pop(uid, None)


def _check_assignment(pod: CardPod, assignment: Assignment) -> None:
    # Anybody who may write the pod can write this annotation. Amounts are not compared: they were fixed in the unit of
    # their time.
    for limit in pod.list_device_limits():
        shares = assignment.containers.get(limit.container, ())
        if not any(share.whole is limit.whole for share in shares):
            raise AssignmentError(f"its assignment gives container {limit.container} no {limit.resource}")


def _request_by_limits(pod: CardPod, unit_bytes: int) -> PodRequest | None:
    try:
        return pod.read_request_by_limits(unit_bytes)
    except RequestError:
        return _EVERYTHING


def _read_inventory(text: str, cordon: frozenset[str], node: str) -> Inventory | InventoryError:
    try:
        inventory = decode_inventory(text)
        return msgspec.structs.replace(inventory, cards=apply_cordon(inventory.cards, cordon))
    except InventoryError as exc:
        log.warning("inventory of node %s is unknown: %s", node, exc)
        return exc
