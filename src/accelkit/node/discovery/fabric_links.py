"""Detection of links between cards other than PCI: NVLink from NVIDIA's library, and XGMI from AMD's compute driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from accelkit.model.card import Link
from accelkit.model.topology import NVLINK, NVSWITCH, XGMI, XGMI_HIVE
from accelkit.node.discovery.kfd import KfdCard
from accelkit.node.discovery.nvml import NvmlCard

_Pair = frozenset[str]
_Found = tuple[str, int]  # the kind and number of links


def find_fabric_links(
    ids: Mapping[str, str], nvml: Mapping[str, NvmlCard], kfd: Mapping[str, KfdCard]
) -> Mapping[str, tuple[Link, ...]]:
    """Return the links of each card, by its PCI address. The links are sorted by the addresses of the linked cards.

    Args:
        ids: the IDs of this host's cards by PCI address.
        nvml: the facts about cards from NVIDIA's library, by PCI address.
        kfd: the facts about cards from AMD's compute driver, by PCI address.
    """
    pairs = dict((*_find_xgmi(kfd), *_find_nvlink(nvml)))
    return {
        here: tuple(
            Link(ids[there], *found)
            for there in sorted(ids)
            if (found := pairs.get(frozenset({here, there}))) is not None
        )
        for here in ids
    }


# A link is included if the card at one of its ends reports it. If a pair occurs twice, the later occurrence takes
# precedence.
def _find_nvlink(cards: Mapping[str, NvmlCard]) -> Iterator[tuple[_Pair, _Found]]:
    # All cards with links to a switch are connected to each other.
    yield from _link_every_two([bdf for bdf, card in cards.items() if card.switched], NVSWITCH)
    for here, card in cards.items():
        for there, count in card.linked.items():
            # The card at one end may report fewer links than the card at the other end.
            reverse = cards[there].linked.get(here, 0) if there in cards else 0
            yield frozenset({here, there}), (NVLINK, max(count, reverse))


def _find_xgmi(cards: Mapping[str, KfdCard]) -> Iterator[tuple[_Pair, _Found]]:
    for hive in sorted({card.hive for card in cards.values() if card.hive}):
        yield from _link_every_two([bdf for bdf, card in cards.items() if card.hive == hive], XGMI_HIVE)
    for here, card in cards.items():
        yield from ((frozenset({here, there}), (XGMI, 1)) for there in card.linked)


def _link_every_two(cards: Sequence[str], kind: str) -> Iterator[tuple[_Pair, _Found]]:
    return ((frozenset(pair), (kind, 1)) for pair in combinations(cards, 2))
