"""Keeps what each node's host has free, of all pods' requests: cards without CPU beside them are of no use."""

from __future__ import annotations

from collections.abc import Collection

from accelkit.ledger.ledger import Ledger
from accelkit.model.host_amounts import NOTHING, UNKNOWN, HostAmounts


class HostRooms:
    """What hosts have, and what the pods bound to them request.

    Args:
        ledger: its table is told what is free.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._nodes: dict[str, HostAmounts] = {}
        # Summed up anew at each change, so that nothing is left of pods that are gone.
        self._pods: dict[str, dict[str, HostAmounts]] = {}
        self._where: dict[str, str] = {}

    def put_node(self, name: str, amounts: HostAmounts) -> None:
        """Take over what a node has for pods."""
        self._nodes[name] = amounts
        self._tell(name)

    def drop_node(self, name: str) -> None:
        """Forget a node; its pods are remembered until they are gone."""
        self._nodes.pop(name, None)

    def keep_nodes(self, names: Collection[str]) -> None:
        """Forget every node that a complete list did not show."""
        for name in self._nodes.keys() - set(names):
            self.drop_node(name)

    def put_pod(self, uid: str, node: str, amounts: HostAmounts) -> None:
        """Take over what a bound pod requests."""
        if self._where.get(uid) == node and self._pods[node][uid] == amounts:
            return
        self.end_pod(uid)
        if amounts != NOTHING:
            self._pods.setdefault(node, {})[uid] = amounts
            self._where[uid] = node
            self._tell(node)

    def end_pod(self, uid: str) -> None:
        """Forget a pod that ended or is gone; nothing happens where it is not known."""
        if (node := self._where.pop(uid, None)) is None:
            return
        del self._pods[node][uid]
        if not self._pods[node]:
            del self._pods[node]
        self._tell(node)

    def keep_pods(self, uids: Collection[str]) -> None:
        """Forget all pods that a complete list did not show."""
        for uid in self._where.keys() - set(uids):
            self.end_pod(uid)

    def measure_free(self, node: str, gone: Collection[str] = ()) -> HostAmounts:
        """Return what a node has free, as it would be without the pods of these UIDs; infinite where unknown."""
        has, used = self._nodes.get(node, UNKNOWN), NOTHING
        for uid, amounts in self._pods.get(node, {}).items():
            if uid not in gone:
                used += amounts
        return HostAmounts(*(a - b for a, b in zip(has, used, strict=True)))

    def _tell(self, node: str) -> None:
        self._ledger.note_host(node, self.measure_free(node))
