"""Table output of `accelkit explain`. It starts with the result, followed by groups of similar nodes.

The table consists of plain text lines, because tables from the library `rich` have at most 80 columns and truncated
names if the output is redirected to a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.inspection.explanation.explanation import Explanation
from accelkit.inspection.explanation.groups import NodeGroup, group_nodes
from accelkit.inspection.explanation.pods import SchedulerWords
from accelkit.inspection.explanation.sentences import describe_change, describe_request
from accelkit.inspection.simulation import CardSimulation, NodeSimulation, Simulation

_MOST_NAMES: Final = 6


def build_explanation_table(explanation: Explanation, *, every: bool = False) -> RenderableType:
    """Return the explanation as lines for a terminal.

    Args:
        explanation: the explanation to display.
        every: whether to list all nodes separately.
    """
    parts = [Text(explanation.answer, style="bold")]
    if explanation.smallest_change:
        parts.append(Text(f"Smallest change: {explanation.smallest_change}.", style="bold"))
    if explanation.scheduler is not None:
        parts.append(Text(_describe_words(explanation.scheduler)))
    simulation = explanation.simulation
    if simulation is not None:
        if simulation.group:
            parts.append(Text(f"It waits with its group: {simulation.group}.", style="bold"))
        parts += _list_request(simulation)
        parts += [Text(f"Pod {name} holds no card, so its deletion frees nothing.") for name in simulation.absent]
        if simulation.request:
            parts += _list_every(simulation) if every else _list_groups(simulation)
    return Group(*parts)


def _describe_words(words: SchedulerWords) -> str:
    if words.reason or words.message:
        return f"kube-scheduler ({words.reason or 'no reason'}): {words.message or 'no message'}"
    return f"kube-scheduler has not reported a result yet; the pod's schedulerName is {words.scheduler}."


def _list_request(simulation: Simulation) -> Iterator[Text]:
    for container in simulation.request:
        yield Text(f"Container {container.container} requests {describe_request(container)}.")


def _list_groups(simulation: Simulation) -> Iterator[Text]:
    if fitting := sorted((node for node in simulation.nodes if node.fits), key=lambda node: -node.score):
        yield Text("")
        yield Text(f"{_count(len(fitting))}: the pod fits{_name_others(fitting)}", style="green")
        yield from _list_fitting(fitting[0])
    for group in group_nodes(simulation.nodes):
        yield Text("")
        yield from _list_group(group)
    if simulation.spent:
        yield Text("")
        yield Text(
            "The search for changes stopped at its limit. It began with the nodes that lack the least. To search only "
            "certain nodes, set --node.",
            style="yellow",
        )


def _list_group(group: NodeGroup) -> Iterator[Text]:
    yield Text(f"{_count(len(group.nodes))}: {group.best.sentence}{_name_others(group.nodes)}", style="cyan")
    if group.change is not None:
        words = "smallest change" if len(group.nodes) > 1 else "change"
        yield Text(f"  {words}: {describe_change(group.change, group.best.name)}")
        yield from _list_more(group.best)
    else:
        yield Text(f"  {_describe_nothing(group.best)}")
    yield from _list_cards(group.best)


def _list_every(simulation: Simulation) -> Iterator[Text]:
    for node in simulation.nodes:
        yield Text("")
        if node.fits:
            yield Text(f"{node.name}: the pod fits", style="green")
            yield from _list_fitting(node)
            continue
        yield Text(f"{node.name}: {node.sentence}", style="cyan")
        if node.changes:
            yield Text(f"  change: {describe_change(node.changes[0], node.name)}")
            yield from _list_more(node)
        else:
            yield Text(f"  {_describe_nothing(node)}")
        yield from _list_cards(node)


def _list_fitting(node: NodeSimulation) -> Iterator[Text]:
    for container, shares in (node.assignment or {}).items():
        cards = ", ".join(share.card for share in shares)
        yield Text(f"  {node.name}, score {node.score}: container {container} would get {cards}")


def _list_more(node: NodeSimulation) -> Iterator[Text]:
    for change in node.changes[1:]:
        yield Text(f"  or: {describe_change(change, node.name)}")
    if not all(change.proven for change in node.changes):
        yield Text("  (the search was incomplete: smaller changes may exist)", style="bright_black")


def _list_cards(node: NodeSimulation) -> Iterator[Text]:
    width = max((len(card.id) for card in node.cards), default=0)
    if node.cards:
        yield Text(f"  cards of {node.name}:")
    for card in node.cards:
        yield Text(f"    {card.id:<{width}}  {_describe_card(card)}")


def _describe_card(card: CardSimulation) -> str:
    containers = {refusal.container for refusal in card.refusals}
    if not containers:
        return "sufficient for each container alone"
    if len(containers) == 1:
        return card.refusals[0].sentence
    return "; ".join(f"{refusal.container}: {refusal.sentence}" for refusal in card.refusals)


def _describe_nothing(node: NodeSimulation) -> str:
    return "no single change makes the pod fit" if node.searched else "the search for changes was incomplete"


def _name_others(nodes: Sequence[NodeSimulation]) -> str:
    names = ", ".join(node.name for node in nodes[:_MOST_NAMES])
    more = len(nodes) - _MOST_NAMES
    return f" ({names} and {more:,} more)" if more > 0 else f" ({names})"


def _count(number: int) -> str:
    return f"{number:,} node{'' if number == 1 else 's'}"
