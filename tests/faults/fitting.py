"""Which pods wait although they fit. In doubt a pod does not fit: only what surely fits must be bound."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from faults.counting import count_assigned, count_given
from faults.facts import WHOLE, Facts, Node, Pod


class Room:
    """What is free on the nodes, as far as anybody counts it: assignments, kubelets, reservations of the ledger."""

    def __init__(self, facts: Facts) -> None:
        self._nodes = {name: node for name, node in facts.nodes.items() if node.schedulable}
        self._free = {
            (node.name, card.id): card.capacity
            for node in self._nodes.values()
            for card in node.cards.values()
            if card.usable
        }
        self._used_cards: set[tuple[str, str]] = set()
        self._asked: dict[str, Counter[str]] = defaultdict(Counter)
        for pod in facts.pods:
            if pod.holds:
                self._charge(facts, pod)
        for share in facts.ledger.shares if facts.ledger else ():
            if not share.bound:
                self._take((share.node, share.card), share.amount)

    def place(self, pod: Pod) -> bool:
        """Take what a pod asks for on some node; False where no node surely has it."""
        return any(self._place_on(node, pod) for node in self._nodes.values())

    def _charge(self, facts: Facts, pod: Pod) -> None:
        node = facts.nodes.get(pod.node)
        given = facts.given.get(pod.node, {}).get(pod.uid)
        amounts = [count_assigned(pod)]
        if node is not None and given is not None:
            amounts.append(count_given(node, pod, given))
        for card in {card for each in amounts for card in each}:
            held = [each[card] for each in amounts if card in each]
            self._take((pod.node, card), WHOLE if WHOLE in held else max(held))
        self._asked[pod.node] += count_requested(pod)

    def _take(self, place: tuple[str, str], amount: int) -> None:
        self._used_cards.add(place)
        if place in self._free:
            self._free[place] = 0 if amount == WHOLE else self._free[place] - amount

    def _place_on(self, node: Node, pod: Pod) -> bool:
        if any(node.labels.get(key) != value for key, value in pod.selector.items()):
            return False
        asked = self._asked[node.name] + count_requested(pod)
        if any(number > node.allocatable.get(name, 0) for name, number in asked.items()):
            return False
        free, used = dict(self._free), set(self._used_cards)
        for container in pod.containers:
            places = [place for place in self._free if place[0] == node.name]
            whole = [place for place in places if place not in self._used_cards][: container.cards]
            need = container.memory * node.unit
            shared = [place for place in places if self._free[place] >= need > 0][:1]
            if len(whole) < container.cards or (need and not shared):
                self._free, self._used_cards = free, used
                return False
            for place in whole:
                self._take(place, WHOLE)
            for place in shared:
                self._take(place, need)
        self._asked[node.name] = asked
        return True


def count_requested(pod: Pod) -> Counter[str]:
    """Return what kube-scheduler counts of a pod's resources, or more, and the pod itself."""
    asked = Counter({"pods": 1})
    for container in pod.containers:
        asked.update(container.resources)
    return asked


def find_pods_that_fit(facts: Facts) -> list[Pod]:
    """Return the pods that wait and that would fit if nothing else were placed; of a group all, or none."""
    waiting = [
        pod for pod in facts.pods if not pod.node and not pod.deleting and pod.schedulable and pod.phase == "Pending"
    ]
    groups: Mapping[str, Sequence[Pod]] = _group(waiting)
    members = Counter(pod.group for pod in facts.pods if pod.group and pod.phase != "Failed")
    found: list[Pod] = []
    for pods in groups.values():
        if pods[0].group and members[pods[0].group] < max(each.group_size for each in pods):
            continue
        room = Room(facts)
        if all(room.place(pod) for pod in pods):
            found.extend(pods)
    return found


def _group(pods: Sequence[Pod]) -> dict[str, list[Pod]]:
    groups: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        groups[f"group {pod.namespace}/{pod.group}" if pod.group else pod.uid].append(pod)
    return groups
