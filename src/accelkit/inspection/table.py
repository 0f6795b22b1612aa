"""Table output of `accelkit inspect`: a bar for each card, followed by the pods on the card, and totals at the end.

The table consists of plain text lines, because tables from the library `rich` have at most 80 columns and truncated
names if the output is redirected to a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from accelkit.inspection.inspection import CardView, InspectedNode, Inspection, ShareView, Totals
from accelkit.model.card import Health
from accelkit.model.units import format_bytes

_BAR = 24
# Phrases for the links in accelkit.placement.topology.links that are not named after a technology.
_LINK_PHRASES = {
    "link": "connected by a link",
    "switched link": "connected by a switched link",
    "PCI switch": "below the same PCI switch",
    "PCI switches": "connected by several PCI switches",
    "PCI root": "below the same PCI root",
    "NUMA node": "on the same NUMA node",
    "other NUMA node": "on different NUMA nodes",
    "unknown": "with unknown link",
}
# Above this fraction, a bar is yellow, because little memory is available for more pods.
_NEARLY_FULL = 0.85


def build_inspection_table(inspection: Inspection) -> RenderableType:
    """Return the inspection as lines for a terminal."""
    if not inspection.nodes:
        return Text("No node shares cards. Label nodes with accelkit.io/share=true and run the node agent on them.")
    parts: list[RenderableType] = []
    for node in inspection.nodes:
        parts += [*_node(node), Text("")]
    unit = f", unit {format_bytes(inspection.unit_bytes)}" if inspection.unit_bytes else ""
    count = _count(len(inspection.nodes), "node")
    parts.append(Text(f"{count}, {_totals(inspection.totals)}{unit}", style="bold"))
    return Group(*parts)


def _node(node: InspectedNode) -> Iterator[Text]:
    title = Text(node.name, style="bold cyan")
    title.append(f"  {_totals(node.totals)}", style="default")
    if node.problem:
        title.append(f"  {node.problem}", style="yellow")
    yield title
    width = max((len(card.id) for card in node.cards), default=0)
    name_width = max([_BAR - 2, *(len(_name(share)) for card in node.cards for share in card.shares)])
    for card in node.cards:
        yield _card(card, width)
        for share in card.shares:
            yield _share(share, width, name_width)
    for cards in node.sets:
        name = f"{cards.namespace}/{cards.pod} [{cards.container}]"
        yield Text(f"  {name} has {len(cards.cards)} cards, {_describe_links(cards.links)}", "bright_black")
    for pod in node.unassigned:
        yield Text(f"  ? {pod.namespace}/{pod.pod} holds cards, but their IDs are unknown: {pod.problem}", "yellow")


def _describe_links(links: Mapping[str, int]) -> str:
    phrases = ((_LINK_PHRASES.get(name, f"connected by {name}"), count) for name, count in links.items())
    return ", ".join(f"{_count(count, 'pair')} {phrase}" for phrase, count in phrases) or "the links are unknown"


def _card(card: CardView, width: int) -> Text:
    line = Text(f"  {card.id:<{width}}  ")
    fraction = card.used_bytes / card.capacity_bytes if card.capacity_bytes else float(card.whole)
    filled = min(_BAR, round(fraction * _BAR))
    if 0 < fraction < 1:
        # The bar of a partly used card must not be empty or full.
        filled = max(1, min(_BAR - 1, filled))
    colour = "red" if fraction > 1 else "yellow" if fraction > _NEARLY_FULL else "green"
    line.append("█" * filled, style=colour).append("░" * (_BAR - filled), style="bright_black")
    if card.capacity_bytes:
        line.append(f"  {format_bytes(card.used_bytes):>9} of {format_bytes(card.capacity_bytes):<9}")
    else:
        line.append(f"  {'memory unknown':<22}")
    line.append(f" {card.model}", style="bright_black")
    if card.memory_factor != 1:
        line.append(f"  oversubscribed {card.memory_factor:g} times", style="yellow")
    if card.used_compute and not card.whole:
        line.append(f"  compute {card.used_compute / 10:g} %")
    if card.health != Health.HEALTHY:
        reason = f": {card.health_reason}" if card.health_reason else ""
        line.append(f"  {card.health}{reason}", style="red" if card.health == Health.UNHEALTHY else "yellow")
    if card.cordoned:
        line.append("  cordoned", style="yellow")
    if not card.known:
        line.append("  not in the inventory", style="yellow")
    return line


def _share(share: ShareView, width: int, name_width: int) -> Text:
    amount = "whole card" if share.whole else format_bytes(share.memory_bytes)
    line = Text(f"  {'':<{width}}  └ {_name(share):<{name_width}}  {amount:>9}")
    if share.compute and not share.whole:
        line.append(f", compute {share.compute / 10:g} %")
    if share.stage != "confirmed":
        line.append(f"  ({share.stage})", style="bright_black")
    return line


def _name(share: ShareView) -> str:
    return f"{share.namespace}/{share.pod} [{share.container}]"


def _totals(totals: Totals) -> str:
    used, capacity = format_bytes(totals.used_bytes), format_bytes(totals.capacity_bytes)
    return f"{_count(totals.cards, 'card')}, {used} of {capacity} used"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
