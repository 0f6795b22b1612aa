"""How much of each card a pod holds, by what its kubelet gave and by its assignment."""

from __future__ import annotations

from collections.abc import Iterator

from faults.facts import WHOLE, Given, Node, Pod, find_card


def count_given(node: Node, pod: Pod | None, containers: Given) -> dict[str, int]:
    """Return what a pod holds of each card: a device that several of its containers take in turn counts once.

    Which unit a pod was given whose start nobody has written yet is not known: the smallest one is taken.
    """
    smallest = min((node.unit, *(unit for unit, _ in node.former_units)))
    unit = node.find_unit(pod) if pod is not None and pod.started else smallest
    devices = {(resource, device) for held in containers.values() for resource, ids in held.items() for device in ids}
    return _sum(unit, ((find_card(node, resource, device), device in node.cards) for resource, device in devices))


def list_given(node: Node, pod: Pod, containers: Given) -> dict[str, dict[str, int]]:
    """Return what each container holds of each card."""
    unit = node.find_unit(pod)
    return {
        name: _sum(
            unit,
            (
                (find_card(node, resource, device), device in node.cards)
                for resource, devices in held.items()
                for device in devices
            ),
        )
        for name, held in containers.items()
    }


def _sum(unit: int, devices: Iterator[tuple[str, bool]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for card, whole in devices:
        found[card] = WHOLE if whole else found.get(card, 0) + unit
    return found


def count_assigned(pod: Pod) -> dict[str, int]:
    """Return what a pod costs each card: init containers run one after the other, before the app containers."""
    assigned = pod.assigned or {}
    kinds = {each.name: each.kind for each in pod.containers}
    found: dict[str, int] = {}
    for card in {card for shares in assigned.values() for card in shares}:
        if any(shares.get(card) == WHOLE for shares in assigned.values()):
            found[card] = WHOLE
            continue
        beside, peak = 0, 0
        for container in pod.containers:
            amount = assigned.get(container.name, {}).get(card, 0)
            if container.kind == "init":
                peak = max(peak, beside + amount)
            else:
                beside += amount
        strangers = sum(shares.get(card, 0) for name, shares in assigned.items() if name not in kinds)
        found[card] = max(peak, beside) + strangers
    return found
