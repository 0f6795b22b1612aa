"""Feeds the ledger with what the API server shows: the one place where pods and nodes become holdings and cards.

It takes lists and single events in any order the API server can produce. An assignment on a pod that is not bound says
nothing and is ignored. No object stops the others: one that cannot be read is logged once and counted, and a bound pod
is then charged with all that its node has.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from accelkit.errors import InventoryError, RequestError
from accelkit.ledger.bound_pods import DEFAULT_UNIT_BYTES, BoundPods
from accelkit.ledger.holding import Holding, Stage
from accelkit.ledger.host_rooms import HostRooms
from accelkit.ledger.ledger import Ledger
from accelkit.model.cordon import apply_cordon, read_cordon
from accelkit.model.host_amounts import HostAmounts, read_node_amounts, read_pod_amounts
from accelkit.model.inventory import INVENTORY_ANNOTATION, Inventory, decode_inventory
from accelkit.model.object_meta import ObjectIdentity
from accelkit.model.observed_versions import ObservedVersions
from accelkit.model.pod import HOLD_CONDITION, SCHEDULED, ConfigMap, Node, Pod, PodRef
from accelkit.model.request import PodRequest
from accelkit.placement.mix import TaskMix, TaskType, describe_task
from accelkit.placement.sharing.rules import SharingRules
from accelkit.reporting import OnceReporter
from accelkit.vendors.counted_dialects import BoundPodReader
from accelkit.vendors.dialect import Dialect
from accelkit.vendors.labelled_nodes.labels import list_disabled_cards
from accelkit.vendors.labelled_nodes.offer import NodeOffer, add_offer, build_inventory, read_offer
from accelkit.vendors.pod_reading import CardPod, PodReader

log = logging.getLogger(__name__)


class _BareSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _BarePod(msgspec.Struct):
    """Who a pod is and where, of one that cannot be read as a whole."""

    metadata: ObjectIdentity
    spec: _BareSpec = msgspec.field(default_factory=_BareSpec)


@dataclass(frozen=True, slots=True)
class Pending:
    """A pod that waits for a node, and what it asks for in the cluster's unit.

    Attributes:
        request: None where it asks for no card, or what it asks for cannot be granted.
        refusal: why it cannot be granted; None where it can.
        task: what it takes of a node, as one of a mix; None where nothing can be granted.
        version: the resource version in which the pod was seen.
    """

    pod: CardPod
    request: PodRequest | None
    refusal: RequestError | None = None
    task: TaskType | None = None
    version: str = ""


class _Sight(msgspec.Struct, frozen=True):
    """What was seen of a node: its inventory as written, None without one; the cards that are out; what else is."""

    text: str | None
    cordoned: frozenset[str]
    offer: NodeOffer


class LedgerFeed:
    """Keeps a ledger up to date with nodes and pods, and remembers the pods that wait.

    Args:
        ledger: what is kept up to date.
        dialects: those in use, in which pods that wait are read.
    """

    def __init__(self, ledger: Ledger, dialects: Sequence[Dialect]) -> None:
        self._ledger = ledger
        self._dialects = dialects
        self._reader = PodReader(dialects)
        self._bound_reader = BoundPodReader(dialects)
        self._inventories: dict[str, _Sight] = {}
        self._withheld: dict[str, frozenset[str]] = {}
        self._errors = OnceReporter(log, logging.ERROR)
        self._unknown = OnceReporter(log)
        self._versions = ObservedVersions()
        self._bound = BoundPods(ledger, self._errors)
        self._hosts = HostRooms(ledger)
        self.mix = TaskMix()
        self.pending: dict[str, Pending] = {}
        # When each bound pod was created, for those who ask in another system's words.
        self.created: dict[str, str] = {}

    @property
    def disbelieved(self) -> int:
        """How many pods had an assignment that is not, or not in all, believed."""
        return self._bound.disbelieved

    @property
    def unreadable(self) -> int:
        """How many objects could not be read."""
        return self._errors.count

    def list_bound(self, node: str) -> list[CardPod]:
        """Return the pods with cards that are bound to a node and can be read."""
        return self._bound.list_pods(node)

    def measure_room(self, node: str, gone: Collection[str] = ()) -> HostAmounts:
        """Return what a node's host has free, as it would be without the pods of these UIDs; infinite where unknown."""
        return self._hosts.measure_free(node, gone)

    def replace_nodes(self, nodes: list[Node]) -> None:
        """Take over a complete list of nodes."""
        for node in nodes:
            self._put_node(node)
        names = {node.metadata.name for node in nodes}
        for name in self._inventories.keys() - names:
            del self._inventories[name]
        self._ledger.keep_nodes(names)
        self._hosts.keep_nodes(names)

    def take_node_event(self, kind: str, node: Node) -> None:
        """Take over one change of a node."""
        if kind == "DELETED":
            self._inventories.pop(node.metadata.name, None)
            self._ledger.drop_node(node.metadata.name)
            self._hosts.drop_node(node.metadata.name)
        else:
            self._put_node(node)

    def replace_config_maps(self, maps: list[ConfigMap]) -> None:
        """Take over a complete list of the ConfigMaps in which another system lists the bad cards of nodes."""
        withheld = dict(found for each in maps if (found := self._read_bad_cards(each)))
        for name in withheld.keys() | self._withheld.keys():
            self._withhold(name, withheld.get(name, frozenset()))

    def take_config_map_event(self, kind: str, config_map: ConfigMap) -> None:
        """Take over one change of such a ConfigMap."""
        if (found := self._read_bad_cards(config_map)) is not None:
            self._withhold(found[0], frozenset() if kind == "DELETED" else found[1])

    def _read_bad_cards(self, config_map: ConfigMap) -> tuple[str, frozenset[str]] | None:
        for lists in (dialect.unhealthy_cards for dialect in self._dialects):
            if lists is not None and (node := lists.find_node(config_map.metadata.name)) is not None:
                words = (word.strip() for word in (config_map.data or {}).get(lists.key, "").split(","))
                return node, frozenset(word for word in words if word)
        return None

    def _withhold(self, name: str, words: frozenset[str]) -> None:
        if self._withheld.get(name, frozenset()) == words:
            return
        if words:
            self._withheld[name] = words
        else:
            del self._withheld[name]
        if (seen := self._inventories.get(name)) is not None:
            self._ledger.put_node(name, self._read_inventory(name, seen))

    def trim_pod(self, pod: Pod) -> None:
        """Take from a pod what is not read of it here."""
        self._bound_reader.trim(pod)
        status = pod.status
        status.container_statuses = status.init_container_statuses = None
        # A bound pod needs neither of the two.
        conditions = () if pod.spec.node_name else status.conditions or ()
        kept = [each for each in conditions if each.type in {SCHEDULED, HOLD_CONDITION}]
        for each in kept:
            if each.type == SCHEDULED:
                each.message = None
        status.conditions = kept or None

    def replace_pods(self, pods: list[Pod], version: str = "") -> list[Holding]:
        """Take over a complete list of pods; return the holdings younger than the list, to be asked for one by one.

        Args:
            pods: all of them.
            version: the list's own version.
        """
        listed = {pod.metadata.uid for pod in pods}
        self._versions.forget_missing(listed, version, unsure=True)
        for known in (self.pending, self.created):
            for uid in known.keys() - self._versions.uids - listed:
                del known[uid]
        bound = {pod.metadata.uid for pod in pods if pod.spec.node_name and not pod.terminal}
        # What was read in a newer version is not in the list yet.
        bound |= self._versions.uids - listed
        self._bound.keep(bound)
        self._hosts.keep_pods(bound)
        for pod in pods:
            self._put_pod(pod)
        return self._ledger.keep_pods(bound)

    def list_differences(self, listed: Iterable[ObjectIdentity], version: str) -> dict[str, str]:
        """Return the UIDs of the pods of which a complete list is newer than what was taken over, with their versions.

        A pod that was deleted has an empty version.
        """
        return self._versions.list_differences(listed, version)

    def take_pod_event(self, kind: str, pod: Pod) -> None:
        """Take over one change of a pod."""
        if kind == "DELETED":
            self._versions.end(pod.metadata)
            self._end(pod.metadata.uid, pod.spec.node_name)
        else:
            self._put_pod(pod)

    def take_unreadable_pod(self, kind: str, text: bytes) -> None:
        """Take over one change of a pod of which little can be read, or nothing."""
        try:
            pod = msgspec.json.decode(text, type=_BarePod)
        except Exception:  # noqa: BLE001 - whatever it is, nobody knows whose it is
            return
        ref = PodRef(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
        if kind == "DELETED":
            self._versions.end(pod.metadata)
            self._end(ref.uid, pod.spec.node_name)
        elif pod.spec.node_name and self._versions.take(pod.metadata):
            self._bound.put_unreadable(ref, pod.spec.node_name)

    def take_pod(self, pod: Pod) -> bool:
        """Take over a pod that was read by itself: it may be newer than what the watch has shown, and the next list.

        Return False where the watch has shown a newer version of it, or its deletion.
        """
        return self._put_pod(pod, Stage.BOUND)

    def take_rules(self, rules: SharingRules) -> None:
        """Let other rules of sharing hold from now on, for the pods that wait, too."""
        self._ledger.put_rules(rules)
        for uid, each in self.pending.items():
            if each.request is not None:
                request = rules.close(each.request, each.pod.ref.namespace, each.pod.priority)
                self.pending[uid] = replace(each, request=request)

    def read_pending(self, pod: Pod) -> Pending | None:
        """Read a pod that waits for a node; None where it has nothing to do with cards."""
        found = self._reader.read(pod)
        return None if found is None else self._pending(found, pod)

    def _put_node(self, node: Node) -> None:
        name = node.metadata.name
        try:
            if self._put_inventory(node):
                self._bound.reread(name)
            self._hosts.put_node(name, read_node_amounts(node.status.allocatable))
        except Exception as exc:  # noqa: BLE001 - one node must not end the service
            self._errors.report(node.metadata.uid or name, f"node {name} cannot be read", error=exc)
            self._inventories.pop(name, None)
            self._ledger.put_node(name, InventoryError("the node cannot be read"))

    def _put_inventory(self, node: Node) -> bool:
        """Take over a node's cards; False where nothing has changed."""
        name, text = node.metadata.name, node.find_annotation(INVENTORY_ANNOTATION)
        offer = read_offer(node, self._dialects)
        if text is None and not offer.numbers and not offer.problem:
            known = self._inventories.pop(name, None)
            self._ledger.put_node(name, None)
            return known is not None
        if self._inventories.get(name) != (seen := _Sight(text, self._cordon(node), offer)):
            self._inventories[name] = seen
            self._ledger.put_node(name, self._read_inventory(name, seen))
            return True
        return False

    def _read_inventory(self, node: str, seen: _Sight) -> Inventory | InventoryError:
        try:
            if seen.text is None:
                inventory = build_inventory(seen.offer, self._ledger.unit_bytes or DEFAULT_UNIT_BYTES)
            else:
                inventory = add_offer(decode_inventory(seen.text), seen.offer)
            return msgspec.structs.replace(inventory, cards=apply_cordon(inventory.cards, self._withheld_cards(node)))
        except InventoryError as exc:
            self._unknown.report(node, f"inventory of node {node} is unknown: {exc}")
            return exc

    def _cordon(self, node: Node) -> frozenset[str]:
        return read_cordon(node) | list_disabled_cards(node.metadata.labels or {}, self._dialects)

    def _withheld_cards(self, name: str) -> frozenset[str]:
        return self._inventories[name].cordoned | self._withheld.get(name, frozenset())

    def _put_pod(self, pod: Pod, stage: Stage = Stage.CONFIRMED) -> bool:
        if not self._versions.take(pod.metadata):
            return False
        try:
            self._read_pod(pod, stage)
        except Exception as exc:  # noqa: BLE001 - one pod must not end the service
            if pod.spec.node_name:
                self._bound.put_unreadable(pod.ref, pod.spec.node_name, exc)
            else:
                self._errors.report(pod.metadata.uid, f"pod {pod.ref} cannot be read", error=exc)
        return True

    def _read_pod(self, pod: Pod, stage: Stage) -> None:
        if pod.terminal:
            self._end(pod.metadata.uid, pod.spec.node_name)
            return
        host = read_pod_amounts(pod.spec)
        if pod.spec.node_name:
            self._hosts.put_pod(pod.metadata.uid, pod.spec.node_name, host)
        found = (self._bound_reader if pod.spec.node_name else self._reader).read(pod)
        if found is None or not found.asks:
            return
        known = found.ref.uid in self.pending or found.ref.uid in self.created
        pending = self._pending(found, pod)
        if not known and pending.task is not None:
            self.mix.observe(pending.task)
        if not found.node:
            self.pending[found.ref.uid] = pending
        else:
            self.pending.pop(found.ref.uid, None)
            self.created[found.ref.uid] = found.created_at
            self._bound.put(found, stage)

    def _end(self, uid: str, node: str) -> None:
        self.pending.pop(uid, None)
        self.created.pop(uid, None)
        self._bound.end(node, uid)
        self._hosts.end_pod(uid)

    def _pending(self, pod: CardPod, seen: Pod) -> Pending:
        version = seen.metadata.resource_version
        try:
            request = pod.read_request(self._ledger.unit_bytes or DEFAULT_UNIT_BYTES)
            if request is not None and (rules := self._ledger.namespaces.rules).reservations:
                request = rules.close(request, pod.ref.namespace, pod.priority)
            task = None if request is None else describe_task(request, read_pod_amounts(seen.spec))
            return Pending(pod, request, task=task, version=version)
        except RequestError as exc:
            return Pending(pod, None, exc.with_traceback(None), version=version)
