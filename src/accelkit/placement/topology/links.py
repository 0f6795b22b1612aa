"""Connections between the cards of a node, with a weight for each pair.

| weight | connection of the two cards |
|---|---|
| 8 for each link | NVLink, XGMI |
| 8 | NVSwitch |
| 7 | XGMI hive in which other cards forward the data |
| 6 | Xe-link, or a link of another kind |
| 5 | one common PCI switch |
| 4 | several PCI switches |
| 3 | same PCI root complex |
| 2 | same NUMA node |
| 1 | unknown |
| 0 | different NUMA nodes |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final, TypeAlias

from accelkit.model.card import Card
from accelkit.model.request import MAX_CARDS
from accelkit.model.topology import FABRICS, NVLINK, NVSWITCH, XE_LINK, XGMI, XGMI_HIVE, Nearness
from accelkit.texts import shorten

# The names of the connections between two cards, for output.
Names: TypeAlias = tuple[tuple[str, ...], ...]
Weights: TypeAlias = tuple[tuple[int, ...], ...]

# The minimum weight of the closest connection. Several links are faster than one link, but not closer.
LINKED: Final = 8
# The minimum weights for two cards below common PCI switches, and for two cards on the same NUMA node.
SAME_SWITCH: Final = 4
SAME_SOCKET: Final = 2

_OTHER_LINK: Final = 6
_LINKS: Final[Mapping[str, int]] = {NVLINK: LINKED, NVSWITCH: LINKED, XGMI: LINKED, XGMI_HIVE: 7, XE_LINK: 6}
# The limit on the number of links in an inventory, which is higher than the number of links of any card.
_MOST_LINKS: Final = 36
_MOST_NAME: Final = 40
_NEARNESS: Final[Mapping[str, tuple[int, str]]] = {
    Nearness.FABRIC_DIRECT: (LINKED, "link"),
    Nearness.FABRIC_SWITCHED: (7, "switched link"),
    Nearness.PCI_SWITCH: (5, "PCI switch"),
    Nearness.PCI_MULTI: (SAME_SWITCH, "PCI switches"),
    Nearness.HOST_BRIDGE: (3, "PCI root"),
    Nearness.NUMA: (SAME_SOCKET, "NUMA node"),
    Nearness.UNKNOWN: (1, "unknown"),
    Nearness.CROSS_NUMA: (0, "other NUMA node"),
}
_FABRICS: Final = (Nearness.FABRIC_DIRECT, Nearness.FABRIC_SWITCHED)
# The matrix contains links without their kind. The kind is part of the data of the cards.
_UNNAMED: Final = frozenset(_NEARNESS[each][1] for each in _FABRICS)


@dataclass(frozen=True, eq=False)
class CardLinks:
    """The connections between the cards of a node, in inventory order. Nodes with equal connections share one object.

    Attributes:
        weights: the weight of the connection between card i and card j; 0 if i equals j.
        names: the name of the connection between card i and card j, for example `2 NVLink` or `PCI switch`; empty if i
            equals j.
    """

    weights: Weights
    names: Names

    def describe(self, places: Iterable[int]) -> dict[str, int]:
        """Return the number of pairs of these cards by connection, with the strongest connection first."""
        pairs = sorted(combinations(sorted(places), 2), key=lambda pair: -self.weights[pair[0]][pair[1]])
        return dict(Counter(self.names[i][j] for i, j in pairs))


def find_links(cards: Sequence[Card], topology: Sequence[str] = ()) -> CardLinks | None:
    """Return the connections between a node's cards; None if the number of cards exceeds the limit.

    Args:
        cards: the cards in inventory order.
        topology: the `Nearness` matrix from the inventory. If its size does not match, the connections are derived only
            from the cards.
    """
    if len(cards) > MAX_CARDS:
        return None
    fits = len(topology) == len(cards) and all(len(row) == len(cards) for row in topology)
    kinds = frozenset((link.kind, link.count) for card in cards for link in card.links)
    linked_letters = sum(row.count(letter) for row in topology for letter in _FABRICS)
    complete = fits and linked_letters == sum(len(card.links) for card in cards)
    if complete and (named := _name_letters(kinds)) is not None:
        # The matrix is sufficient for the connections, and nodes of the same kind have equal matrices.
        return _build(tuple(topology), (), named)
    places = {card.id: place for place, card in enumerate(cards)}
    linked = tuple(
        tuple((places[link.to], link.kind, link.count) for link in card.links if link.to in places) for card in cards
    )
    rows = tuple(topology) if fits else tuple("".join(_compare(a, b) for b in cards) for a in cards)
    return _build(rows, linked, ())


@lru_cache(maxsize=128)
def _name_letters(kinds: frozenset[tuple[str, int]]) -> tuple[tuple[str, str], ...] | None:
    """Return the kind of link for each letter of the matrix; None if the matrix is ambiguous."""
    letters = [FABRICS.get(kind) for kind, _ in kinds]
    if None in letters or len(set(letters)) < len(letters) or any(count != 1 for _, count in kinds):
        return None
    return tuple((FABRICS[kind], kind) for kind, _ in kinds)


@lru_cache(maxsize=128)
def _build(
    rows: tuple[str, ...],
    linked: tuple[tuple[tuple[int, str, int], ...], ...],
    named: tuple[tuple[str, str], ...],
) -> CardLinks:
    letters = {**_NEARNESS, **{letter: _weigh(kind, 1) for letter, kind in named}}
    found = [[letters.get(letter, _NEARNESS[Nearness.UNKNOWN]) for letter in row] for row in rows]
    for i, j in combinations(range(len(rows)), 2):
        found[j][i] = found[i][j]
    for here, links in enumerate(linked):
        for there, kind, count in links:
            link = _weigh(kind, count)
            # Check both cards, because only one of them may report a link, and two cards may have several links.
            for i, j in ((here, there), (there, here)):
                if link[0] > found[i][j][0] or found[i][j][1] in _UNNAMED:
                    found[i][j] = link
    for place in range(len(found)):
        found[place][place] = (0, "")
    return _intern(tuple(tuple(w for w, _ in row) for row in found), tuple(tuple(n for _, n in row) for row in found))


@lru_cache(maxsize=128)
def _intern(weights: Weights, names: Names) -> CardLinks:
    return CardLinks(weights, names)


@lru_cache(maxsize=128)
def restrict(links: CardLinks, places: tuple[int, ...]) -> CardLinks:
    """Return the connections between a subset of the cards, in the given order."""
    return _intern(
        tuple(tuple(links.weights[i][j] for j in places) for i in places),
        tuple(tuple(links.names[i][j] for j in places) for i in places),
    )


def _weigh(kind: str, count: int) -> tuple[int, str]:
    several = min(max(count, 1), _MOST_LINKS)
    name = shorten(kind, _MOST_NAME)
    return _LINKS.get(kind, _OTHER_LINK) * several, name if several == 1 else f"{several} {name}"


def _compare(a: Card, b: Card) -> str:
    """Return the connection between two cards according to their positions, without regard to links."""
    if a.pci_root and a.pci_root == b.pci_root:
        return Nearness.HOST_BRIDGE
    if a.numa is None or b.numa is None:
        return Nearness.UNKNOWN
    return Nearness.NUMA if a.numa == b.numa else Nearness.CROSS_NUMA
