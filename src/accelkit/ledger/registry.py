"""Registry of the ledger's nodes and pods, which creates, finds and removes entries."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping

from accelkit.ledger.holding import Holding, NodeEntry, UnassignedPod
from accelkit.ledger.namespaces import Namespaces
from accelkit.ledger.table import Table
from accelkit.model.request import PodRequest
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.sharing.bars import Reserved


class NodeRegistry:
    """Nodes by name and row, and the pods that have cards on the nodes.

    Attributes:
        table: the table with one row per node.
        namespaces: the amounts that each namespace uses, and the sharing rules.
        reserved_nodes: the names of the nodes with reserved cards.
    """

    def __init__(self) -> None:
        self.table = Table()
        self.namespaces = Namespaces()
        self.reserved_nodes = set[str]()
        self._nodes: dict[str, NodeEntry] = {}
        self._by_row: list[NodeEntry | None] = []
        self._names: list[str] = []
        self._where: dict[str, str] = {}
        self._lock = threading.RLock()

    def find_holding(self, uid: str) -> Holding | None:
        """Return the holding of a pod; None if the pod has no cards or its cards are unknown."""
        with self._lock:
            node = self._where.get(uid)
            return None if node is None else self._nodes[node].holdings.get(uid)

    def describe_holding(self, uid: str) -> dict[str, object]:
        """Return the shares of each container of a pod and the connections between the cards, as log data."""
        with self._lock:
            held = self.find_holding(uid)
            if held is None:
                return {"containers": {}}
            containers, links = held.assignment.containers, self._nodes[held.node].describe_links(held.assignment)
            return {"containers": containers} | ({"links": links} if links else {})

    def find_node(self, name: str) -> NodeEntry | None:
        """Return the entry of a node. Callers must not change it."""
        return self._nodes.get(name)

    def find_node_at(self, row: int) -> NodeEntry | None:
        """Return the entry of the node in a row of the table; None if the node was removed."""
        return self._by_row[row]

    def find_row(self, name: str) -> int:
        """Return the row of a node in the table; -1 for an unknown node."""
        entry = self._nodes.get(name)
        return -1 if entry is None else entry.row

    def list_node_names(self) -> list[str]:
        """Return the node name of each row of the table; empty for free rows. Callers must not change the list."""
        return self._names

    def list_nodes(self) -> Iterator[NodeEntry]:
        """Return all entries sorted by name, including deleted nodes that still have pods."""
        with self._lock:
            return iter([entry for _, entry in sorted(self._nodes.items())])

    def __len__(self) -> int:
        return len(self._where)

    def resolve(self, request: PodRequest) -> PodRequest:
        """Return the request with resolved affinity selectors.

        The first pod that a selector matches may use any node.
        """
        if not request.selectors:
            return request
        with self._lock:
            return self.namespaces.resolve(request, self._list_pods())

    def _entry(self, name: str) -> NodeEntry:
        entry = self._nodes.get(name)
        if entry is None:
            entry = NodeEntry(name, self.table.add_row(), problem=Misfit(MisfitReason.UNKNOWN_NODE, resolvable=False))
            self._nodes[name] = entry
            if entry.row == len(self._by_row):
                self._by_row.append(entry)
                self._names.append(name)
            else:
                self._by_row[entry.row], self._names[entry.row] = entry, name
            self.table.update(entry)
        return entry

    def _discard_if_gone(self, entry: NodeEntry) -> None:
        if entry.gone:
            del self._nodes[entry.name]
            self.reserved_nodes.discard(entry.name)
            self._by_row[entry.row], self._names[entry.row] = None, ""
            self.table.free_row(entry.row)

    def _find_pod(self, uid: str) -> Holding | UnassignedPod | None:
        node = self._where.get(uid)
        entry = None if node is None else self._nodes[node]
        return None if entry is None else entry.holdings.get(uid) or entry.unassigned.get(uid)

    def _list_pods(self) -> Iterator[Holding | UnassignedPod]:
        for entry in self._nodes.values():
            yield from entry.holdings.values()
            yield from entry.unassigned.values()

    def _find_reserved(self, entry: NodeEntry) -> Mapping[str, Reserved]:
        rules = self.namespaces.rules
        entry.reserved = rules.find_reserved(entry.name, entry.list_cards()) if rules.reservations else {}
        (self.reserved_nodes.add if entry.reserved else self.reserved_nodes.discard)(entry.name)
        return entry.reserved
