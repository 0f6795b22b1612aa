"""Labels for a node's cards: accelkit's labels for all vendors, and the labels from the vendors' profiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from accelkit.model.card import Card
from accelkit.model.keys import CARD_COUNT_LABEL, CARD_LABEL_PREFIX
from accelkit.node.labels.sources import to_label_value
from accelkit.vendors.profiles import Profile

_MAX_VALUE = 63
# The prefix of each subsequent part of a long value, because a label value must start with a letter or digit.
_CONTINUED = "Z"


def build_card_labels(cards: Sequence[Card], profiles: Mapping[str, Profile]) -> dict[str, str]:
    """Return the labels for these cards.

    The labels are `accelkit.io/cards.count` and `.memory` (total memory in GiB) and, for each vendor,
    `.<vendor>.count`, `.<vendor>.model` and `.<vendor>.memory` (memory of the smallest card in MiB). The memory labels
    are omitted if the memory of a card is unknown.

    Args:
        cards: the node's cards.
        profiles: the profiles by vendor name.
    """
    if not cards:
        return {}
    labels = {CARD_COUNT_LABEL: str(len(cards))}
    if (total := _sum_memory(cards)) is not None:
        labels[f"{CARD_LABEL_PREFIX}memory"] = str(total // 2**30)
    for vendor in sorted({card.vendor for card in cards}):
        own = [card for card in cards if card.vendor == vendor]
        labels |= dict(_label_vendor(vendor, own))
        if vendor in profiles:
            labels |= _fill_patterns(profiles[vendor].labels, own)
    return labels


def _label_vendor(vendor: str, cards: Sequence[Card]) -> Iterator[tuple[str, str]]:
    yield f"{CARD_LABEL_PREFIX}{vendor}.count", str(len(cards))
    if model := _find_model(cards):
        yield f"{CARD_LABEL_PREFIX}{vendor}.model", model
    if (memory := _find_least_mib(cards)) is not None:
        yield f"{CARD_LABEL_PREFIX}{vendor}.memory", str(memory)


def _fill_patterns(patterns: Mapping[str, str], cards: Sequence[Card]) -> dict[str, str]:
    facts, labels = _collect_facts(cards), dict[str, str]()
    for key, pattern in patterns.items():
        with suppress(KeyError):
            labels |= split_value(key, pattern.format_map(facts))
    return labels


def _collect_facts(cards: Sequence[Card]) -> dict[str, str]:
    """Return the facts that labels in profiles can refer to. Facts that are unknown for any card are omitted."""
    facts = {"count": str(len(cards))}
    if model := _find_model(cards):
        facts["model"] = model
    if (memory := _find_least_mib(cards)) is not None:
        facts |= {"memory_mib": str(memory), "memory_gib": str(round(memory / 1024))}
    numbers = [(number, card.numa) for card in cards if (number := _read_number(card)) is not None]
    if len(numbers) != len(cards):
        return facts
    numbers.sort(key=lambda pair: pair[0])
    facts["numbers"] = ".".join(str(number) for number, _ in numbers)
    facts["names"] = _join_whole_names([f"card{number}" for number, _ in numbers])
    nodes: dict[int, list[str]] = {}
    for number, numa in numbers:
        if numa is not None:
            nodes.setdefault(numa, []).append(str(number))
    if nodes:
        facts["numa"] = "_".join(f"{node}-{'.'.join(local)}" for node, local in sorted(nodes.items()))
    return facts


def split_value(key: str, value: str) -> dict[str, str]:
    """Return the labels for a value.

    A value that is too long for one label is split into `key`, `key2`, `key3` and so on.
    """
    parts = {key: value[:_MAX_VALUE]}
    rest, number = value[_MAX_VALUE:], 2
    while rest:
        parts[f"{key}{number}"] = _CONTINUED + rest[: _MAX_VALUE - 1]
        rest, number = rest[_MAX_VALUE - 1 :], number + 1
    return parts


def _join_whole_names(names: Sequence[str]) -> str:
    value = ""
    for name in names:
        longer = f"{value}.{name}" if value else name
        if len(longer) > _MAX_VALUE:
            break
        value = longer
    return value


def _read_number(card: Card) -> int | None:
    return card.index if card.minor is None else card.minor


def _find_model(cards: Sequence[Card]) -> str | None:
    """Return the most frequent model as a label value; None if the model has no valid characters."""
    ((model, _),) = Counter(sorted(card.model for card in cards)).most_common(1)
    return to_label_value(model)


def _find_least_mib(cards: Sequence[Card]) -> int | None:
    known = [card.memory_bytes for card in cards if card.memory_bytes is not None]
    return min(known) // 2**20 if len(known) == len(cards) else None


def _sum_memory(cards: Sequence[Card]) -> int | None:
    known = [card.memory_bytes for card in cards if card.memory_bytes is not None]
    return sum(known) if len(known) == len(cards) else None
