"""Says in words what a simulation found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from accelkit.inspection.simulation import ChangeView, Simulation
from accelkit.model.request import ContainerRequest
from accelkit.model.units import format_bytes

_MOST_CARDS_NAMED: Final = 8


def describe_answer(who: str, simulation: Simulation, *, named: bool, without: Sequence[str] = ()) -> str:
    """Return whether the pod would fit, in a sentence.

    Args:
        who: the pod.
        simulation: what the extender would do with it.
        named: whether it was asked about some nodes alone.
        without: pods that were taken to be gone.
    """
    if simulation.refusal:
        return f"{who} is pending: what it asks for cannot be granted: {simulation.refusal}."
    if not simulation.request:
        return f"{who} is pending, but it asks for no card: accelkit keeps it from no node."
    nodes = simulation.nodes
    if not nodes:
        return f"{who} is pending: no node shares cards; label nodes accelkit.io/share=true, and run the agent on them."
    where, fitting = _count_nodes(len(nodes), named=named), sum(node.fits for node in nodes)
    if without:
        gone = " and ".join(without)
        if fitting:
            return f"Without {gone}, {fitting:,} of {where} would have room for {who[0].lower()}{who[1:]}."
        who = f"Even without {gone}, {who[0].lower()}{who[1:]}"
    elif fitting:
        have = "has" if fitting == 1 else "have"
        return (
            f"{who} is pending, but {fitting:,} of {where} {have} room for it: what keeps it is in kube-scheduler's "
            "own words."
        )
    none = f"none of the {where} has room for it" if len(nodes) > 1 else f"the only {where[2:]} has no room for it"
    return f"{who} {'would be' if without else 'is'} pending: {none}."


def describe_smallest(simulation: Simulation) -> str:
    """Return the smallest change over all nodes, in a sentence; empty where the pod fits or no change would help."""
    nodes = simulation.nodes
    if not simulation.request or not nodes or any(node.fits for node in nodes):
        return ""
    found = [(node.changes[0].order, number, node) for number, node in enumerate(nodes) if node.changes]
    if found:
        _, _, node = min(found, key=lambda each: each[:2])
        return describe_change(node.changes[0], node.name)
    if simulation.spent:
        return "none was found before the search ended at its limit"
    return "none was found: no single one would let it in"


def describe_change(change: ChangeView, node: str) -> str:
    """Return a change, and where the pod would then go."""
    if not change.taken:
        return f"{change.sentence} (node {node})"
    cards = ", ".join(change.taken[:_MOST_CARDS_NAMED])
    more = len(change.taken) - _MOST_CARDS_NAMED
    cards += f" and {more} more" if more > 0 else ""
    return f"{change.sentence}: card{'s' if len(change.taken) > 1 else ''} {cards} of {node} would take it"


def describe_request(container: ContainerRequest) -> str:
    """Return what a container asks for."""
    number = container.cards
    if container.whole:
        words = "one whole card" if number == 1 else f"{number} whole cards"
    else:
        amounts = [format_bytes(container.memory_bytes)] if container.memory_bytes else []
        amounts += [f"{container.compute / 10:g} % of the compute"] if container.compute else []
        words = f"{' and '.join(amounts) or 'a share'} of {'one card' if number == 1 else f'each of {number} cards'}"
    constraints = [
        f"{name} {value}" for name in ("model", "link", "numa", "same_card_as") if (value := getattr(container, name))
    ]
    constraints += ["not all cards allowed"] if container.allowed or container.denied else []
    return f"{words} ({', '.join(constraints)})" if constraints else words


def _count_nodes(number: int, *, named: bool) -> str:
    if number == 1:
        return "1 node that was named" if named else "1 node that shares cards"
    return f"{number:,} nodes that were named" if named else f"{number:,} nodes that share cards"
