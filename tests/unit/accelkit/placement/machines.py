"""Machines of cards for the tests beside this module, by their matrix or a tree of sockets and switches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from accelkit.model.card import Card, Link
from accelkit.placement.card_state import CardState, build_empty_states
from accelkit.placement.topology.links import CardLinks, find_links

NAMES = "abcdefghijklmnopqrstuvwxyz"


def draw_rows(cards: int, letter: Callable[[int, int], str]) -> tuple[str, ...]:
    """Return the matrix in which two cards have this letter."""
    return tuple("".join("X" if a == b else letter(a, b) for b in range(cards)) for a in range(cards))


def draw_tree(*sockets: Sequence[int]) -> tuple[str, ...]:
    """Return the matrix of a machine with so many cards below each PCI switch of each socket."""
    places = [(s, w) for s, switches in enumerate(sockets) for w, cards in enumerate(switches) for _ in range(cards)]

    def letter(a: int, b: int) -> str:
        (socket, switch), (other_socket, other_switch) = places[a], places[b]
        return "C" if socket != other_socket else "S" if switch == other_switch else "H"

    return draw_rows(len(places), letter)


def make_cards(count: int, memory: Sequence[int] = (), links: Sequence[tuple[int, int, str, int]] = ()) -> list[Card]:
    """Return cards named a, b, c…; `links` are (from, to, kind, how many)."""
    return [
        Card(
            NAMES[place],
            "v",
            "m",
            memory[place] if memory else 16,
            links=tuple(Link(NAMES[b], kind, several) for a, b, kind, several in links if a == place),
        )
        for place in range(count)
    ]


def connect(rows: Sequence[str], links: Sequence[tuple[int, int, str, int]] = ()) -> CardLinks:
    """Return the connections of a machine with this matrix."""
    found = find_links(make_cards(len(rows), links=links), rows)
    assert found is not None
    return found


def hold(rows: Sequence[str], used: str = "", memory: Sequence[int] = ()) -> list[CardState]:
    """Return the cards of a machine, of which some are held."""
    states = build_empty_states(make_cards(len(rows), memory))
    return [CardState(s.card, 0, 0, empty=False) if s.card.id in used else s for s in states]


QUADS = draw_rows(8, lambda a, b: "D" if a // 4 == b // 4 else "C")
SWITCHED = draw_rows(8, lambda _a, _b: "D")
PAIRS = draw_tree([2, 2], [2, 2])
FLAT = draw_rows(8, lambda _a, _b: "?")
