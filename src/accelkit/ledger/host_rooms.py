"""Free CPU and memory of each node. Pods cannot use the cards of a host without free CPU and memory."""

from __future__ import annotations

from collections.abc import Collection

from accelkit.ledger.ledger import Ledger
from accelkit.model.host_amounts import NOTHING, UNKNOWN, HostAmounts


class HostRooms:
    """Allocatable amounts of the host of each node, and the requests of the pods that are bound to the node.

    Args:
        ledger: the ledger whose table receives the free amounts.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._nodes: dict[str, HostAmounts] = {}
        # The sum is computed again after each change, so that no rounding errors remain from removed pods.
        self._pods: dict[str, dict[str, HostAmounts]] = {}
        self._where: dict[str, str] = {}

    def put_node(self, name: str, amounts: HostAmounts) -> None:
        """Set the allocatable amounts of a node."""
        self._nodes[name] = amounts
        self._update_table(name)

    def drop_node(self, name: str) -> None:
        """Remove a node. Its pods remain until they are removed separately."""
        self._nodes.pop(name, None)

    def keep_nodes(self, names: Collection[str]) -> None:
        """Remove every node that is missing from a complete list."""
        for name in self._nodes.keys() - set(names):
            self.drop_node(name)

    def put_pod(self, uid: str, node: str, amounts: HostAmounts) -> None:
        """Set the request of a bound pod."""
        if self._where.get(uid) == node and self._pods[node][uid] == amounts:
            return
        self.end_pod(uid)
        if amounts != NOTHING:
            self._pods.setdefault(node, {})[uid] = amounts
            self._where[uid] = node
            self._update_table(node)

    def end_pod(self, uid: str) -> None:
        """Remove a pod that terminated or was deleted. Ignore an unknown pod."""
        if (node := self._where.pop(uid, None)) is None:
            return
        del self._pods[node][uid]
        if not self._pods[node]:
            del self._pods[node]
        self._update_table(node)

    def keep_pods(self, uids: Collection[str]) -> None:
        """Remove all pods that are missing from a complete list."""
        for uid in self._where.keys() - set(uids):
            self.end_pod(uid)

    def measure_free(self, node: str, gone: Collection[str] = ()) -> HostAmounts:
        """Return the free amounts of a node without the pods with the UIDs in `gone`; infinite if unknown."""
        total, used = self._nodes.get(node, UNKNOWN), NOTHING
        for uid, amounts in self._pods.get(node, {}).items():
            if uid not in gone:
                used += amounts
        return HostAmounts(*(a - b for a, b in zip(total, used, strict=True)))

    def _update_table(self, node: str) -> None:
        self._ledger.note_host(node, self.measure_free(node))
