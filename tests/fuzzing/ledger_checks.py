"""What must hold of a ledger at every moment, whatever it was told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from fuzzing.leftovers import find_empty_shells, find_leftovers
from fuzzing.objects import FORMER_UNITS
from fuzzing.rounds import FindingError
from fuzzing.values import ZEROS, Json

from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.holding import Holding, NodeEntry, ShareStage
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import MOVING
from accelkit.vendors.dialect import Dialect

_PLAIN = frozenset(map(str, range(1, 17)))


class LedgerChecks:
    """Compares a ledger with the pods as they are written, without believing what is written about cards.

    Args:
        ledger: what is checked.
        feed: what fills it.
        dialects: whose resources count.
        unit_bytes: the cluster's unit.
    """

    def __init__(self, ledger: Ledger, feed: LedgerFeed, dialects: Sequence[Dialect], unit_bytes: int) -> None:
        self._ledger = ledger
        self._feed = feed
        # Of the dialects that our agents could serve, they serve the first.
        first = next(each for each in dialects if each.advertised)
        served = [each for each in dialects if not each.advertised or each is first]
        self._asking = frozenset(name for each in served for name in each.resources.requestable)
        self._memory = frozenset(each.resources.memory for each in dialects if each.resources.memory)
        self._whole = frozenset(each.resources.cards for each in dialects if each.resources.cards)
        self._named = frozenset(name for each in dialects for name in each.resources.requestable)
        self._systems = [each.resources.requestable for each in served]
        # Those that were in force anywhere; without any, a unit is 1 GiB.
        self._units = {2**30, unit_bytes}

    def note_unit(self, name: str) -> None:
        """Note which unit a node has now."""
        entry = self._ledger.find_node(name)
        if entry is not None and entry.inventory is not None:
            self._units |= {entry.inventory.unit_bytes, *FORMER_UNITS}

    def check_charged(self, pod: dict[str, Any]) -> None:
        """See that a bound pod whose limits ask for cards is charged, and for what its limits say."""
        node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
        if not node or pod["status"].get("phase") in ("Succeeded", "Failed") or not self._requests(pod):
            return
        entry = self._ledger.find_node(node)
        if entry is None or uid not in entry.holdings | entry.unassigned:
            raise FindingError("a bound pod that asks for cards is not charged", pod)
        if (held := entry.holdings.get(uid)) is not None:
            self._check_amounts(pod, held, entry)

    def requests_several_systems(self, pod: dict[str, Any]) -> bool:
        """Whether a container asks for resources of several dialects, and no limit of it is wrong otherwise."""
        return any(
            sum(any(str(limits.get(name)) in _PLAIN for name in requestable) for requestable in self._systems) > 1
            for limits in _list_limits(pod)
        )

    def check_sums(self) -> None:
        """See that what is used of each card is the sum of what pods are charged."""
        total = 0
        for name in self._ledger.list_node_names():
            entry = self._ledger.find_node(name)
            if entry is None:
                continue
            total += len(entry.holdings) + len(entry.unassigned)
            sums = Counter[tuple[str, str]]()
            for held in entry.holdings.values():
                for card, charge in held.charges.items():
                    sums[card, "bytes"] += charge.memory_bytes
                    sums[card, "compute"] += charge.compute
                    sums[card, "holders"] += 1
            used = {
                (card, word): amount
                for card, use in entry.uses.items()
                for word, amount in (("bytes", use.used_bytes), ("compute", use.used_compute), ("holders", use.holders))
            }
            if used != dict(sums):
                raise FindingError("what is used of a card is not what pods are charged", [name, repr(used)])
            if any(state.free_bytes > state.card.capacity_bytes for state in entry.list_card_states()):
                raise FindingError("more of a card is free than it has", name)
        if total != len(self._ledger):
            raise FindingError("a pod is charged on two nodes", total)

    def check_pods_left(self, uids: Collection[str], most_nodes: int) -> None:
        """See that nothing is known of these pods, which are gone, and no more rows were made than nodes were there."""
        nodes = [self._ledger.find_node(name) for name in self._ledger.list_node_names()]
        left = [each.name for each in nodes if each and (each.holdings or each.unassigned or each.uses)]
        if left or len(self._ledger):
            raise FindingError("nodes hold what no pod holds", left)
        gone = uids.__contains__
        for part in (self._feed, self._ledger):
            if found := find_leftovers(part, gone):
                raise FindingError(f"{type(part).__name__} remembers pods that are gone", found[:10])
        rows = len(self._ledger.list_node_names())
        if rows > most_nodes:
            raise FindingError("rows of nodes are not used again", {"rows": rows, "nodes at most": most_nodes})

    def check_nodes_left(self, names: Collection[str]) -> None:
        """See that nothing is known of these nodes, which are gone."""
        if left := [entry.name for entry in self._ledger.list_nodes()]:
            raise FindingError("the ledger shows nodes that are gone", left)
        paths = find_leftovers(self._feed, names.__contains__)
        if shells := find_empty_shells(self._feed) + [path for path in paths if not path.startswith("._ledger")]:
            raise FindingError("LedgerFeed remembers nodes that are gone", sorted(set(shells))[:10])

    def _check_amounts(self, pod: dict[str, Any], held: Holding, entry: NodeEntry) -> None:
        known = {card.id for card in entry.list_cards()}
        if held.stage is ShareStage.CONFIRMED and entry.problem is None and not held.charges.keys() <= known:
            raise FindingError("a pod is charged on cards that its node does not have", pod)
        if (asked := self._plain_amounts(pod)) is None:
            return
        memory, whole = asked
        shares = [share for name, each in held.assignment.containers.items() if name != MOVING for share in each]
        charged = sum(share.memory_bytes for share in shares if not share.whole)
        if charged not in {memory * unit for unit in self._units}:
            raise FindingError("a pod is charged another amount of memory than its limits say", [charged, pod])
        if sum(share.whole for share in shares) != whole:
            raise FindingError("a pod is charged another number of whole cards than its limits say", pod)

    def _plain_amounts(self, pod: dict[str, Any]) -> tuple[int, int] | None:
        """Return the units of memory and the whole cards of a pod that asks for them plainly, else None."""
        if pod["spec"]["initContainers"]:
            return None
        memory = whole = 0
        for limits in _list_limits(pod):
            named = self._named & limits.keys()
            if not named:
                continue
            if len(named) > 1 or not named <= self._memory | self._whole:
                return None
            (name,) = named
            if str(limits[name]) not in _PLAIN:
                return None
            memory += int(limits[name]) if name in self._memory else 0
            whole += int(limits[name]) if name in self._whole else 0
        return memory, whole

    def _requests(self, pod: dict[str, Any]) -> bool:
        return any(limits[name] not in ZEROS for limits in _list_limits(pod) for name in self._asking & limits.keys())


def _list_limits(pod: dict[str, Any]) -> list[dict[str, Json]]:
    containers = (*pod["spec"]["initContainers"], *pod["spec"]["containers"])
    return [each["resources"]["limits"] or {} for each in containers]
