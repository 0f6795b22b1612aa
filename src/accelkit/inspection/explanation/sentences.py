"""Sentences that describe the result of a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from accelkit.inspection.simulation import ChangeView, Simulation
from accelkit.model.request import ContainerRequest
from accelkit.model.units import format_bytes

_MOST_CARDS_NAMED: Final = 8


def describe_answer(subject: str, simulation: Simulation, *, named: bool, without: Sequence[str] = ()) -> str:
    """Return a sentence that describes whether the pod would fit.

    Args:
        subject: the subject of the sentence, which refers to the pod.
        simulation: the extender's simulation for the pod.
        named: whether the simulation was limited to nodes that the user specified.
        without: the pods that are considered deleted in the simulation.
    """
    if simulation.refusal:
        return f"{subject} is pending, because its request cannot be granted: {simulation.refusal}."
    if not simulation.request:
        return f"{subject} is pending, but it requests no card, so accelkit excludes no node for it."
    nodes = simulation.nodes
    if not nodes:
        return f"{subject} is pending: no node shares cards. Label nodes with accelkit.io/share=true and run the agent."
    where, fitting = _count_nodes(len(nodes), named=named), sum(node.fits for node in nodes)
    if without:
        deleted = " and ".join(without)
        if fitting:
            return f"Without {deleted}, {subject[0].lower()}{subject[1:]} would fit on {fitting:,} of {where}."
        subject = f"Even without {deleted}, {subject[0].lower()}{subject[1:]}"
    elif fitting:
        return (
            f"{subject} is pending, but it fits on {fitting:,} of {where}: the message of kube-scheduler contains the "
            "reason."
        )
    none = f"it does not fit on any of the {where}" if len(nodes) > 1 else f"it does not fit on the only {where[2:]}"
    return f"{subject} {'would be' if without else 'is'} pending: {none}."


def describe_smallest(simulation: Simulation) -> str:
    """Return a sentence that describes the smallest change on any node; empty if the pod fits or requests no cards."""
    nodes = simulation.nodes
    if not simulation.request or not nodes or any(node.fits for node in nodes):
        return ""
    found = [(node.changes[0].order, number, node) for number, node in enumerate(nodes) if node.changes]
    if found:
        _, _, node = min(found, key=lambda each: each[:2])
        return describe_change(node.changes[0], node.name)
    if simulation.spent:
        return "none found before the search stopped at its limit"
    return "none: no single change makes the pod fit"


def describe_change(change: ChangeView, node: str) -> str:
    """Return a sentence that describes a change and the cards that the pod would get after the change."""
    if not change.taken:
        return f"{change.sentence} (node {node})"
    cards = ", ".join(change.taken[:_MOST_CARDS_NAMED])
    more = len(change.taken) - _MOST_CARDS_NAMED
    cards += f" and {more} more" if more > 0 else ""
    return f"{change.sentence}: the pod would get card{'s' if len(change.taken) > 1 else ''} {cards} of {node}"


def describe_request(container: ContainerRequest) -> str:
    """Return a description of a container's request."""
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
        return "1 selected node" if named else "1 node that shares cards"
    return f"{number:,} selected nodes" if named else f"{number:,} nodes that share cards"
