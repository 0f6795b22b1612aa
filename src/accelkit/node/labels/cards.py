"""Labels of a node's cards: ours for every vendor, and the vendors' own where users select nodes by them.

The vendors' keys are those of NVIDIA's GPU feature discovery, of AMD's node labeller, and those that Intel's GPU Aware
Scheduling reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from accelkit.model.card import Card
from accelkit.node.labels.sources import label_value

OURS: Final = "accelkit.io/cards."
_MAX_VALUE = 63
# What continues a long value begins with it, since a label's value has to begin with a letter or a digit.
_CONTINUED = "Z"


def card_labels(cards: Sequence[Card]) -> dict[str, str]:
    """Return the labels of these cards.

    `accelkit.io/cards.count`, `.memory` (GiB of all), and per vendor `.<vendor>.count`, `.<vendor>.model` and
    `.<vendor>.memory` (MiB of the smallest card), the last where it is known of all of them.
    """
    if not cards:
        return {}
    labels = {f"{OURS}count": str(len(cards))}
    if (total := _sum(cards)) is not None:
        labels[f"{OURS}memory"] = str(total // 2**30)
    for vendor in sorted({card.vendor for card in cards}):
        own = [card for card in cards if card.vendor == vendor]
        labels |= dict(_of_vendor(vendor, own))
        labels |= _VENDORS[vendor](own) if vendor in _VENDORS else {}
    return labels


def _of_vendor(vendor: str, cards: Sequence[Card]) -> Iterator[tuple[str, str]]:
    yield f"{OURS}{vendor}.count", str(len(cards))
    if model := _model(cards):
        yield f"{OURS}{vendor}.model", model
    if (memory := _mib(cards)) is not None:
        yield f"{OURS}{vendor}.memory", str(memory)


def _nvidia(cards: Sequence[Card]) -> dict[str, str]:
    memory = _mib(cards)
    return {
        "nvidia.com/gpu.count": str(len(cards)),
        **({"nvidia.com/gpu.product": model} if (model := _model(cards)) else {}),
        **({} if memory is None else {"nvidia.com/gpu.memory": str(memory)}),
    }


def _amd(cards: Sequence[Card]) -> dict[str, str]:
    memory = _mib(cards)
    return {
        **({"amd.com/gpu.product-name": model} if (model := _model(cards)) else {}),
        **({} if memory is None else {"amd.com/gpu.vram": f"{round(memory / 1024)}G"}),
    }


def _intel(cards: Sequence[Card]) -> dict[str, str]:
    numbers = sorted(number for card in cards if (number := _number(card)) is not None)
    if len(numbers) != len(cards):
        return {}
    nodes: dict[int, list[int]] = {}
    for card in cards:
        if card.numa is not None and (number := _number(card)) is not None:
            nodes.setdefault(card.numa, []).append(number)
    placed = "_".join(f"{node}-{'.'.join(map(str, sorted(held)))}" for node, held in sorted(nodes.items()))
    return {
        **split_value("gpu.intel.com/gpu-numbers", ".".join(map(str, numbers))),
        # This older key is never continued; it ends with a whole name.
        "gpu.intel.com/cards": _whole_names([f"card{number}" for number in numbers]),
        **(split_value("gpu.intel.com/numa-gpu-map", placed) if placed else {}),
    }


def split_value(key: str, value: str) -> dict[str, str]:
    """Return a value that may be too long for one label over as many as it needs: `key`, `key2`, `key3` and so on."""
    parts = {key: value[:_MAX_VALUE]}
    rest, number = value[_MAX_VALUE:], 2
    while rest:
        parts[f"{key}{number}"] = _CONTINUED + rest[: _MAX_VALUE - 1]
        rest, number = rest[_MAX_VALUE - 1 :], number + 1
    return parts


def _whole_names(names: Sequence[str]) -> str:
    value = ""
    for name in names:
        longer = f"{value}.{name}" if value else name
        if len(longer) > _MAX_VALUE:
            break
        value = longer
    return value


_VENDORS: Final = {"nvidia": _nvidia, "amd": _amd, "intel": _intel}


def _number(card: Card) -> int | None:
    return card.index if card.minor is None else card.minor


def _model(cards: Sequence[Card]) -> str:
    """Return the model of most cards."""
    ((model, _),) = Counter(sorted(card.model for card in cards)).most_common(1)
    return label_value(model)


def _mib(cards: Sequence[Card]) -> int | None:
    known = [card.memory_bytes for card in cards if card.memory_bytes is not None]
    return min(known) // 2**20 if len(known) == len(cards) else None


def _sum(cards: Sequence[Card]) -> int | None:
    known = [card.memory_bytes for card in cards if card.memory_bytes is not None]
    return sum(known) if len(known) == len(cards) else None
