"""Ledger updates from Kubernetes objects. Only this module converts pods and nodes to holdings and cards.

The feed accepts lists and single events in any order in which the API server can send them. It ignores the assignment
of a pod that is not bound. An unreadable object does not affect other objects. It is logged once and counted. An
unreadable bound pod is charged with all amounts of its node.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from accelkit.errors import InventoryError, RequestError
from accelkit.ledger.bound_pods import DEFAULT_UNIT_BYTES, BoundPods
from accelkit.ledger.holding import Holding, ShareStage
from accelkit.ledger.host_rooms import HostRooms
from accelkit.ledger.ledger import Ledger
from accelkit.model.cordon import apply_cordon, read_cordon
from accelkit.model.host_amounts import HostAmounts, read_node_amounts, read_pod_amounts
from accelkit.model.inventory import Inventory, decode_inventory
from accelkit.model.keys import HOLD_CONDITION, INVENTORY_ANNOTATION
from accelkit.model.object_meta import ObjectIdentity
from accelkit.model.observed_versions import ObservedVersions
from accelkit.model.pod import SCHEDULED, ConfigMap, Node, Pod, PodRef
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
    """The identity and the node of a pod with other fields that cannot be read."""

    metadata: ObjectIdentity
    spec: _BareSpec = msgspec.field(default_factory=_BareSpec)


@dataclass(frozen=True, slots=True)
class Pending:
    """A pod that waits for a node, and its request in the cluster's unit.

    Attributes:
        request: the request; None if the pod does not request cards, or its request is invalid.
        refusal: the error in the request; None if the request is valid.
        task: the type of the pod in the task mix; None if there is no request.
        version: the resource version of the pod when it was read.
    """

    pod: CardPod
    request: PodRequest | None
    refusal: RequestError | None = None
    task: TaskType | None = None
    version: str = ""


class _NodeReading(msgspec.Struct, frozen=True):
    """The fields of a node from which its inventory is computed.

    Attributes:
        text: the value of the inventory annotation; None if it is missing.
        cordoned: the names of the cards that a label or annotation on the node excludes from placement.
        offer: the cards and amounts according to labels and resources from other systems.
    """

    text: str | None
    cordoned: frozenset[str]
    offer: NodeOffer


class LedgerFeed:
    """Feed that updates a ledger from nodes and pods, and stores the pods that wait for a node.

    Args:
        ledger: the ledger to update.
        dialects: the enabled dialects.
    """

    def __init__(self, ledger: Ledger, dialects: Sequence[Dialect]) -> None:
        self._ledger = ledger
        self._dialects = dialects
        self._reader = PodReader(dialects)
        self._bound_reader = BoundPodReader(dialects)
        self._inventories: dict[str, _NodeReading] = {}
        # For each node, the cards that another system's ConfigMap lists as unhealthy.
        self._unhealthy: dict[str, frozenset[str]] = {}
        self._errors = OnceReporter(log, logging.ERROR)
        self._unknown = OnceReporter(log)
        self._versions = ObservedVersions()
        self._bound = BoundPods(ledger, self._errors)
        self._hosts = HostRooms(ledger)
        self.mix = TaskMix()
        self.pending: dict[str, Pending] = {}
        # The creation time of each bound pod, which the `inspect` formats of other systems contain.
        self.created: dict[str, str] = {}

    @property
    def invalid_assignments(self) -> int:
        """The number of pods whose assignment is at least partially invalid."""
        return self._bound.invalid_assignments

    @property
    def unreadable(self) -> int:
        """The number of objects that cannot be read."""
        return self._errors.count

    def list_bound(self, node: str) -> list[CardPod]:
        """Return the readable pods with cards that are bound to a node."""
        return self._bound.list_pods(node)

    def measure_room(self, node: str, gone: Collection[str] = ()) -> HostAmounts:
        """Return the free amounts of a node's host without the pods with the UIDs in `gone`; infinite if unknown."""
        return self._hosts.measure_free(node, gone)

    def replace_nodes(self, nodes: list[Node]) -> None:
        """Apply a complete list of nodes."""
        for node in nodes:
            self._put_node(node)
        names = {node.metadata.name for node in nodes}
        for name in self._inventories.keys() - names:
            del self._inventories[name]
        self._ledger.keep_nodes(names)
        self._hosts.keep_nodes(names)

    def take_node_event(self, kind: str, node: Node) -> None:
        """Apply a watch event for a node."""
        if kind == "DELETED":
            self._inventories.pop(node.metadata.name, None)
            self._ledger.drop_node(node.metadata.name)
            self._hosts.drop_node(node.metadata.name)
        else:
            self._put_node(node)

    def replace_config_maps(self, maps: list[ConfigMap]) -> None:
        """Apply a complete list of the ConfigMaps in which another system lists the unhealthy cards of nodes."""
        unhealthy = dict(found for each in maps if (found := self._read_unhealthy(each)))
        for name in unhealthy.keys() | self._unhealthy.keys():
            self._put_unhealthy(name, unhealthy.get(name, frozenset()))

    def take_config_map_event(self, kind: str, config_map: ConfigMap) -> None:
        """Apply a watch event for a ConfigMap in which another system lists unhealthy cards."""
        if (found := self._read_unhealthy(config_map)) is not None:
            self._put_unhealthy(found[0], frozenset() if kind == "DELETED" else found[1])

    def _read_unhealthy(self, config_map: ConfigMap) -> tuple[str, frozenset[str]] | None:
        for lists in (dialect.unhealthy_cards for dialect in self._dialects):
            if lists is not None and (node := lists.find_node(config_map.metadata.name)) is not None:
                words = (word.strip() for word in (config_map.data or {}).get(lists.key, "").split(","))
                return node, frozenset(word for word in words if word)
        return None

    def _put_unhealthy(self, name: str, cards: frozenset[str]) -> None:
        if self._unhealthy.get(name, frozenset()) == cards:
            return
        if cards:
            self._unhealthy[name] = cards
        else:
            del self._unhealthy[name]
        if (reading := self._inventories.get(name)) is not None:
            self._ledger.put_node(name, self._read_inventory(name, reading))

    def trim_pod(self, pod: Pod) -> None:
        """Remove the fields of a pod that the feed does not read."""
        self._bound_reader.trim(pod)
        status = pod.status
        status.container_statuses = status.init_container_statuses = None
        # These two conditions are read only for waiting pods.
        conditions = () if pod.spec.node_name else status.conditions or ()
        kept = [each for each in conditions if each.type in {SCHEDULED, HOLD_CONDITION}]
        for each in kept:
            if each.type == SCHEDULED:
                each.message = None
        status.conditions = kept or None

    def replace_pods(self, pods: list[Pod], version: str = "") -> list[Holding]:
        """Apply a complete list of pods; return the holdings of missing pods that may be newer than the list.

        The caller must read the pods of these holdings individually.

        Args:
            pods: the items of the list.
            version: the resource version of the list itself.
        """
        listed = {pod.metadata.uid for pod in pods}
        self._versions.discard_missing(listed, version, unsure=True)
        for known in (self.pending, self.created):
            for uid in known.keys() - self._versions.uids - listed:
                del known[uid]
        bound = {pod.metadata.uid for pod in pods if pod.spec.node_name and not pod.terminal}
        # A pod may have been read at a newer version than the list, in which it is missing or not bound yet.
        bound |= self._versions.uids - listed
        is_older = self._versions.is_older
        outdated = {pod.metadata.uid for pod in pods if pod.metadata.uid in self.created and is_older(pod.metadata)}
        bound |= outdated
        self._bound.keep(bound)
        self._hosts.keep_pods(bound)
        for pod in pods:
            self._put_pod(pod)
        young = self._ledger.keep_pods(bound)
        read = (self._ledger.find_holding(uid) for uid in outdated)
        return young + [held for held in read if held is not None and held.stage is not ShareStage.CONFIRMED]

    def is_newer(self, uid: str, version: str) -> bool:
        """Return whether a waiting pod was read at a newer version than a list."""
        return uid in self.pending and self._versions.is_newer(uid, version)

    def list_differences(self, listed: Iterable[ObjectIdentity], version: str) -> dict[str, str]:
        """Return the UIDs and listed versions of the pods that are newer in a complete list than in the feed.

        The version of a deleted pod is empty.
        """
        return self._versions.list_differences(listed, version)

    def take_pod_event(self, kind: str, pod: Pod) -> None:
        """Apply a watch event for a pod."""
        if kind == "DELETED":
            self._versions.end(pod.metadata)
            self._remove_pod(pod.metadata.uid, pod.spec.node_name)
        else:
            self._put_pod(pod)

    def take_unreadable_pod(self, kind: str, text: bytes) -> None:
        """Apply a watch event for a pod that cannot be decoded.

        If the identity of the pod is also unreadable, ignore the event.
        """
        try:
            pod = msgspec.json.decode(text, type=_BarePod)
        except Exception:  # noqa: BLE001 - without its UID and node, nothing can be charged
            return
        ref = PodRef(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
        if kind == "DELETED":
            self._versions.end(pod.metadata)
            self._remove_pod(ref.uid, pod.spec.node_name)
        elif pod.spec.node_name and self._versions.take(pod.metadata):
            self._bound.put_unreadable(ref, pod.spec.node_name)

    def take_pod(self, pod: Pod) -> bool:
        """Apply a pod from a single read, which may be newer than the watch and the next list.

        Return False if the watch has already reported a newer version of the pod, or its deletion.
        """
        return self._put_pod(pod, ShareStage.BOUND)

    def take_rules(self, rules: SharingRules) -> None:
        """Replace the sharing rules, and apply them to waiting pods."""
        self._ledger.put_rules(rules)
        for uid, each in self.pending.items():
            if each.request is not None:
                request = rules.close(each.request, each.pod.ref.namespace, each.pod.priority)
                self.pending[uid] = replace(each, request=request)

    def read_pending(self, pod: Pod) -> Pending | None:
        """Return a waiting pod with its request; return None if it neither requests cards nor has an assignment."""
        found = self._reader.read(pod)
        return None if found is None else self._build_pending(found, pod)

    def _put_node(self, node: Node) -> None:
        name = node.metadata.name
        try:
            if self._put_inventory(node):
                self._bound.reread(name)
            self._hosts.put_node(name, read_node_amounts(node.status.allocatable))
        except Exception as exc:  # noqa: BLE001 - one node must not end the service
            self._errors.report(node.metadata.uid or name, f"cannot read node {name}", error=exc)
            self._inventories.pop(name, None)
            self._ledger.put_node(name, InventoryError("the node cannot be read"))

    def _put_inventory(self, node: Node) -> bool:
        """Update the cards of a node; return whether anything has changed."""
        name, text = node.metadata.name, node.find_annotation(INVENTORY_ANNOTATION)
        offer = read_offer(node, self._dialects)
        if text is None and not offer.numbers and not offer.problem:
            known = self._inventories.pop(name, None)
            self._ledger.put_node(name, None)
            return known is not None
        if self._inventories.get(name) != (reading := _NodeReading(text, self._read_cordon(node), offer)):
            self._inventories[name] = reading
            self._ledger.put_node(name, self._read_inventory(name, reading))
            return True
        return False

    def _read_inventory(self, node: str, reading: _NodeReading) -> Inventory | InventoryError:
        try:
            if reading.text is None:
                inventory = build_inventory(reading.offer, self._ledger.unit_bytes or DEFAULT_UNIT_BYTES)
            else:
                inventory = add_offer(decode_inventory(reading.text), reading.offer)
            excluded = self._list_excluded_cards(node)
            return msgspec.structs.replace(inventory, cards=apply_cordon(inventory.cards, excluded))
        except InventoryError as exc:
            self._unknown.report(node, f"cannot read the inventory of node {node}: {exc}")
            return exc

    def _read_cordon(self, node: Node) -> frozenset[str]:
        return read_cordon(node) | list_disabled_cards(node.metadata.labels or {}, self._dialects)

    def _list_excluded_cards(self, name: str) -> frozenset[str]:
        return self._inventories[name].cordoned | self._unhealthy.get(name, frozenset())

    def _put_pod(self, pod: Pod, stage: ShareStage = ShareStage.CONFIRMED) -> bool:
        if not self._versions.take(pod.metadata):
            return False
        try:
            self._read_pod(pod, stage)
        except Exception as exc:  # noqa: BLE001 - one pod must not end the service
            if pod.spec.node_name:
                self._bound.put_unreadable(pod.ref, pod.spec.node_name, exc)
            else:
                self._errors.report(pod.metadata.uid, f"cannot read pod {pod.ref}", error=exc)
        return True

    def _read_pod(self, pod: Pod, stage: ShareStage) -> None:
        if pod.terminal:
            self._remove_pod(pod.metadata.uid, pod.spec.node_name)
            return
        host = read_pod_amounts(pod.spec)
        if pod.spec.node_name:
            self._hosts.put_pod(pod.metadata.uid, pod.spec.node_name, host)
        found = (self._bound_reader if pod.spec.node_name else self._reader).read(pod)
        if found is None or not found.requests_cards:
            return
        known = found.ref.uid in self.pending or found.ref.uid in self.created
        pending = self._build_pending(found, pod)
        if not known and pending.task is not None:
            self.mix.observe(pending.task)
        if not found.node:
            self.pending[found.ref.uid] = pending
        else:
            self.pending.pop(found.ref.uid, None)
            self.created[found.ref.uid] = found.created_at
            self._bound.put(found, stage)

    def _remove_pod(self, uid: str, node: str) -> None:
        self.pending.pop(uid, None)
        self.created.pop(uid, None)
        self._bound.end(node, uid)
        self._hosts.end_pod(uid)

    def _build_pending(self, pod: CardPod, source: Pod) -> Pending:
        version = source.metadata.resource_version
        try:
            request = pod.read_request(self._ledger.unit_bytes or DEFAULT_UNIT_BYTES)
            if request is not None and (rules := self._ledger.namespaces.rules).reservations:
                request = rules.close(request, pod.ref.namespace, pod.priority)
            task = None if request is None else describe_task(request, read_pod_amounts(source.spec))
            return Pending(pod, request, task=task, version=version)
        except RequestError as exc:
            return Pending(pod, None, exc.with_traceback(None), version=version)
