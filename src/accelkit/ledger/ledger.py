"""In-memory ledger of all assignments in a cluster, and the only component that computes free amounts.

Invariants:
- A reservation is chosen and recorded in one critical section, so no two pods get the same memory.
- The state of a bound pod in the API server overrides a reservation, and is never rejected.
- A pod, identified by its UID, has cards on at most one node.
- A node does not accept new pods while one of its cards is over capacity because of a correction. The previous card of
  the corrected pod appears free, but it is allocated to another pod whose correction the watch has not reported yet.
- A pod that is missing from a list is released only if it was confirmed before, because its Binding may be newer than
  the list.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from accelkit.errors import InventoryError
from accelkit.ledger.holding import Holding, NodeEntry, ShareStage, UnassignedPod
from accelkit.ledger.registry import NodeRegistry
from accelkit.model.assignment import Assignment
from accelkit.model.host_amounts import HostAmounts
from accelkit.model.inventory import Inventory
from accelkit.model.pod import PodRef
from accelkit.model.request import Kind, PodRequest
from accelkit.model.units import format_unit
from accelkit.placement.budget import Budget
from accelkit.placement.charges import count_charges
from accelkit.placement.fit import place
from accelkit.placement.misfit import Misfit, MisfitError, MisfitReason
from accelkit.placement.policies import AnyPolicy, Policy
from accelkit.placement.sharing.rules import SharingRules
from accelkit.placement.topology.links import CardLinks
from accelkit.texts import shorten

# Node agents correct assignments within 20 s.
CORRECTION_SECONDS: Final = 30.0


class Ledger(NodeRegistry):
    """The ledger of a cluster: nodes, their cards, and the pods that have shares of the cards.

    Args:
        unit_bytes: the cluster's memory unit. A node that still advertises a different unit accepts no new shares. If
            the argument is None, every unit is accepted, which is only for callers that do not place pods.
        clock: returns the time in seconds, from a monotonic clock.
    """

    def __init__(self, *, unit_bytes: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.unit_bytes = unit_bytes
        self._clock = clock
        # For each node whose assignments are being corrected, the time at which it accepts new pods again in any case.
        self._correcting: dict[str, float] = {}
        self._listed = False

    def lock(self) -> AbstractContextManager[object]:
        """Return a context manager that makes several changes atomic for other threads."""
        return self._lock

    def put_node(self, name: str, inventory: Inventory | InventoryError | None) -> None:
        """Set the inventory of a node.

        If the inventory is an error or None, the holdings do not change, and the node accepts no new shares.
        """
        with self._lock:
            entry = self._entry(name)
            before = entry.inventory, entry.problem
            if isinstance(inventory, Inventory):
                entry.inventory, entry.problem = inventory, self._unit_problem(inventory)
            elif inventory is None:
                entry.inventory, entry.problem = None, Misfit(MisfitReason.NO_INVENTORY, resolvable=False)
            else:
                entry.problem = Misfit(MisfitReason.BAD_INVENTORY, detail=shorten(inventory.message), resolvable=False)
            # Nodes report their status frequently. Unless their cards change, verdicts must remain valid.
            if (entry.inventory, entry.problem) != before:
                self._find_reserved(entry)
                self._update(entry)
                if before[0] is None:
                    self._note_correction(entry)

    def put_rules(self, rules: SharingRules) -> None:
        """Replace the sharing rules. Holdings do not change."""
        with self._lock:
            self.namespaces.put_rules(rules)
            for entry in self._nodes.values():
                before = entry.reserved
                if self._find_reserved(entry) != before:
                    self._update(entry)

    def note_host(self, name: str, free: HostAmounts) -> None:
        """Set the free amounts of a node's host. Ignore an unknown node."""
        with self._lock:
            if (entry := self._nodes.get(name)) is not None:
                self.table.set_host(entry.row, free.cpu_milli, free.memory_bytes)

    def drop_node(self, name: str) -> None:
        """Remove a deleted node. The pods that are bound to it remain until they are removed separately."""
        with self._lock:
            if name in self._nodes:
                entry = self._nodes[name]
                entry.inventory, entry.problem = None, Misfit(MisfitReason.UNKNOWN_NODE, resolvable=False)
                self._update(entry)
                self._discard_if_gone(entry)

    def keep_nodes(self, names: Iterable[str]) -> None:
        """Remove every node that is missing from a complete list."""
        with self._lock:
            for name in self._nodes.keys() - set(names):
                self.drop_node(name)

    def judge_quota(
        self, namespace: str, request: PodRequest, without: Iterable[str] = (), beside: Iterable[PodRequest] = ()
    ) -> Misfit | None:
        """Return the misfit if a pod's request would exceed the quota of its namespace; None if it would not.

        Args:
            namespace: the namespace of the pod.
            request: the request of the pod.
            without: the UIDs of the pods in the namespace whose amounts are not counted.
            beside: additional requests, from other pods in the namespace, that are also counted.
        """
        with self._lock:
            gone = (pod for uid in without if (pod := self._find_pod(uid)) is not None)
            return self.namespaces.judge(namespace, request, gone, beside)

    def reserve(
        self, pod: PodRef, node: str, request: PodRequest, policy: AnyPolicy, labels: tuple[str, ...] = ()
    ) -> Assignment:
        """Choose cards, and reserve them until the outcome of the Binding is known. A repeated call has no effect.

        Args:
            pod: the pod.
            node: the node.
            request: the request of the pod.
            policy: the policy that ranks cards if the pod does not name one.
            labels: the labels of the pod, as `key=value`, which the selectors of other pods may match.

        Raises:
            MisfitError: the pod does not fit the node, already has cards on another node, or exceeds its namespace's
                quota.
        """
        with self._lock:
            held = self.find_holding(pod.uid)
            if held is not None and held.node == node:
                return held.assignment
            if held is not None:
                raise MisfitError(Misfit(MisfitReason.HELD_ELSEWHERE, detail=held.node))
            entry = self._nodes.get(node)
            if entry is None:
                raise MisfitError(Misfit(MisfitReason.UNKNOWN_NODE, detail=node, resolvable=False))
            if (beyond := self.judge_quota(pod.namespace, request)) is not None:
                self.namespaces.note_refused(pod.namespace)
                raise MisfitError(beyond)
            placed = self.choose(entry, self.resolve(request), policy)
            if isinstance(placed, Misfit):
                raise MisfitError(placed)
            charges = count_charges(request.order, placed.containers)
            self._hold(Holding(pod, node, placed, charges, ShareStage.RESERVED, labels))
            return placed

    def choose(
        self, entry: NodeEntry, request: PodRequest, policy: AnyPolicy, budget: Budget | None = None
    ) -> Assignment | Misfit:
        """Return the cards that `reserve` would choose, without reserving them. Quotas are not checked.

        The request must come from `resolve`.
        """
        # Connections affect which cards a pod gets, but not whether it fits.
        topology = any((each.policy or policy) == Policy.TOPOLOGY for each in request.containers)
        return self.place(entry, request, policy, budget, links=entry.find_links() if topology else None)

    def place(
        self,
        entry: NodeEntry,
        request: PodRequest,
        policy: AnyPolicy,
        budget: Budget | None = None,
        links: CardLinks | None = None,
    ) -> Assignment | Misfit:
        """Return cards on a node without reserving them, or a misfit.

        The misfit specifies whether the pod would fit the empty node.

        A request that is too complex is assumed not to fit the empty node, so that no pod is evicted for it.
        """
        with self._lock:
            if (refusal := entry.refusal) is not None:
                return refusal
            grouped = entry.find_links() if any(container.groups for container in request.containers) else None
            placed = place(entry.list_states_for(request), request, policy, budget, links or grouped)
            if isinstance(placed, Assignment):
                return placed
            if placed.reason is MisfitReason.TOO_COMPLEX:
                return Misfit(placed.reason, resolvable=False)
            alone = place(entry.list_empty_states(), request, policy, budget, grouped)
            if isinstance(alone, Assignment):
                return placed
            return Misfit(alone.reason, alone.cards, alone.detail, resolvable=False)

    def restore(self, holding: Holding) -> None:
        """Replace the current holding of a pod with a previous holding, without any checks."""
        with self._lock:
            self._hold(holding)

    def accept(self, uid: str) -> None:
        """Record that the API server accepted the Binding. Ignore a pod that has been removed."""
        with self._lock:
            held = self.find_holding(uid)
            if held is not None and held.stage is ShareStage.RESERVED:
                self._nodes[held.node].holdings[uid] = replace(held, stage=ShareStage.BOUND)

    def confirm(
        self,
        pod: PodRef,
        node: str,
        assignment: Assignment,
        order: Iterable[tuple[str, Kind]],
        stage: ShareStage = ShareStage.CONFIRMED,
        *,
        labels: tuple[str, ...] = (),
    ) -> None:
        """Record a bound pod from the API server; the stage is BOUND if the pod may be newer than the next list."""
        with self._lock:
            held = self.find_holding(pod.uid)
            same = held is not None and (held.node, held.assignment, held.labels) == (node, assignment, labels)
            if held is not None and same:
                # Most events for a running pod do not change its charge.
                if held.stage not in (stage, ShareStage.CONFIRMED):
                    self._nodes[node].holdings[pod.uid] = replace(held, stage=stage)
                return
            until = self._correcting.get(node)
            self._hold(Holding(pod, node, assignment, count_charges(order, assignment.containers), stage, labels))
            corrected = held is not None and held.node == node and held.assignment != assignment
            if corrected or until is not None:
                self._note_correction(self._nodes[node], until)

    def confirm_unassigned(self, pod: UnassignedPod) -> None:
        """Record a bound pod whose cards are unknown."""
        with self._lock:
            self._release(pod.pod.uid)
            entry = self._entry(pod.node)
            entry.unassigned[pod.pod.uid] = pod
            self.namespaces.add(pod)
            self._where[pod.pod.uid] = pod.node
            self._update(entry)

    def release(self, uid: str) -> bool:
        """Release the shares of a pod that has terminated or will not be bound; return whether it had shares."""
        with self._lock:
            held = self.find_holding(uid)
            if held is not None and held.stage is not ShareStage.RESERVED:
                self._nodes[held.node].ended += 1
            return self._release(uid)

    def keep_pods(self, uids: Iterable[str]) -> list[Holding]:
        """Release every confirmed pod that is missing from a complete list; return the missing unconfirmed holdings."""
        with self._lock:
            missing = self._where.keys() - set(uids)
            young = [
                held for uid in missing if (held := self.find_holding(uid)) and held.stage is not ShareStage.CONFIRMED
            ]
            for uid in missing - {held.pod.uid for held in young}:
                self.release(uid)
            if not self._listed:
                # Corrections may be in progress at the time of the first list.
                self._listed = True
                for entry in self._nodes.values():
                    self._note_correction(entry)
            return young

    def end_corrections(self) -> None:
        """Allow new pods on nodes on which a card is still over capacity after the time limit."""
        if not self._correcting:
            return
        with self._lock:
            now = self._clock()
            for name in [name for name, until in self._correcting.items() if now >= until]:
                del self._correcting[name]
                if (entry := self._nodes.get(name)) is not None:
                    self._update(entry)

    def branch(self, gone: Mapping[str, str]) -> Ledger:
        """Return an independent ledger that contains only the nodes of some pods, but not these pods.

        Args:
            gone: the UIDs of the omitted pods, each with the name of its node.
        """
        other = Ledger(unit_bytes=self.unit_bytes)
        with self._lock:
            other.namespaces.rules = self.namespaces.rules
            for name in sorted(set(gone.values()) & self._nodes.keys()):
                left = self._nodes[name].copy_without(gone.keys())
                entry = other._entry(name)
                entry.inventory, entry.problem = left.inventory, left.refusal
                other._find_reserved(entry)
                for held in left.holdings.values():
                    other._hold(held)
                for pod in left.unassigned.values():
                    other.confirm_unassigned(pod)
                other.table.update(entry)
        return other

    def _note_correction(self, entry: NodeEntry, until: float | None = None) -> None:
        if entry.overfull:
            self._correcting[entry.name] = self._clock() + CORRECTION_SECONDS if until is None else until
            self._update(entry)

    def _update(self, entry: NodeEntry) -> None:
        if entry.name in self._correcting and not entry.overfull:
            del self._correcting[entry.name]
        entry.correcting = entry.name in self._correcting
        self.table.update(entry)

    def _release(self, uid: str) -> bool:
        node = self._where.pop(uid, None)
        if node is None:
            return False
        entry = self._nodes[node]
        held = entry.holdings.pop(uid, None)
        if held is not None:
            entry.charge(held.charges.items(), -1)
        if (gone := held or entry.unassigned.pop(uid, None)) is not None:
            self.namespaces.remove(gone)
        self._update(entry)
        self._discard_if_gone(entry)
        return True

    def _hold(self, holding: Holding) -> None:
        self._release(holding.pod.uid)
        entry = self._entry(holding.node)
        entry.holdings[holding.pod.uid] = holding
        entry.charge(holding.charges.items(), +1)
        self.namespaces.add(holding)
        self._where[holding.pod.uid] = holding.node
        self._update(entry)

    def _unit_problem(self, inventory: Inventory) -> Misfit | None:
        if inventory.problem and not inventory.next_unit_bytes:
            detail = "its kubelet does not support so many devices"
        elif self.unit_bytes in (None, inventory.unit_bytes):
            return None
        else:
            detail = f"it still uses {format_unit(inventory.unit_bytes)}"
        return Misfit(MisfitReason.UNIT, detail=detail, resolvable=False)
