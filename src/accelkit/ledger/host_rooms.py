"""Free CPU and memory on each node, from the requests of all pods: cards on a host without free CPU are useless."""

from __future__ import annotations

from collections.abc import Collection

from accelkit.ledger.ledger import Ledger
from accelkit.model.host_amounts import NOTHING, UNKNOWN, HostAmounts


class HostRooms:
    """Host amounts, and the requests of the pods bound to the hosts.

    Args:
        ledger: the ledger whose table receives the free amounts.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._nodes: dict[str, HostAmounts] = {}
        # Summed up again at each change, so that no rounding errors remain from removed pods.
        self._pods: dict[str, dict[str, HostAmounts]] = {}
        self._where: dict[str, str] = {}

    def put_node(self, name: str, amounts: HostAmounts) -> None:
        """Set the amounts that a node offers to pods."""
        self._nodes[name] = amounts
        self._update_table(name)

    def drop_node(self, name: str) -> None:
        """Remove a node; its pods are kept until they are removed."""
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
        """Remove a pod that ended or was deleted; do nothing if it is unknown."""
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
        """Return the free amounts of a node without the pods with these UIDs; infinite if unknown."""
        total, used = self._nodes.get(node, UNKNOWN), NOTHING
        for uid, amounts in self._pods.get(node, {}).items():
            if uid not in gone:
                used += amounts
        return HostAmounts(*(a - b for a, b in zip(total, used, strict=True)))

    def _update_table(self, node: str) -> None:
        self._ledger.note_host(node, self.measure_free(node))
