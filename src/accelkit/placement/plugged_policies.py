"""Policies of other distributions: what one has to be, and how the functions here call it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from accelkit.errors import PluginError
from accelkit.model.amounts import Amounts, take_off
from accelkit.model.card import Card
from accelkit.model.request import ContainerRequest
from accelkit.placement.charges import CardTally

_Answer = TypeVar("_Answer")


class CardView(Protocol):
    """A card and what is free of it, which a policy reads and does not change."""

    @property
    def card(self) -> Card:
        """The card as its node's agent reports it."""

    @property
    def free_bytes(self) -> int:
        """Memory that nobody holds; negative where more is held than there is."""

    @property
    def free_compute(self) -> int:
        """Thousandths of its compute that nobody holds."""

    @property
    def empty(self) -> bool:
        """Whether nobody holds any of it."""

    @property
    def free_amounts(self) -> Amounts:
        """What nobody holds of resources that are numbers and nothing else, by name."""


class _CardLeft(msgspec.Struct, frozen=True, gc=False):
    """A card as the pod's containers before this one leave it."""

    card: Card
    free_bytes: int
    free_compute: int
    empty: bool
    free_amounts: Amounts


@runtime_checkable
class PolicyPlugin(Protocol):
    """What an entry point in `accelkit.policies` names: an object, or a module, with these two functions.

    They are called thousands of times a second, on the event loop of the extender: an answer takes microseconds, needs
    no I/O, and is the same for the same arguments, since scores are kept while a node does not change.
    """

    def rank_card(self, card: CardView, node: Sequence[CardView], request: ContainerRequest) -> float:
        """Rank one of the cards that fit: the least is taken first, of equals the one with the smallest number.

        Args:
            card: one of `node`.
            node: the cards of the node that take new shares, without what the pod's containers before this one took.
            request: what the container asks for.
        """

    def score_node(self, node: Sequence[CardView], most: int) -> int:
        """Score a node from 0 to `most`; the highest is taken, together with the scores of kube-scheduler's plugins.

        Args:
            node: all of its cards.
            most: the score of the best node there can be.
        """


@dataclass(frozen=True, slots=True, eq=False)
class PluggedPolicy:
    """A policy of another distribution, under the name by which it is chosen.

    Attributes:
        origin: the distribution and its version.
    """

    name: str
    plugin: PolicyPlugin
    origin: str

    def __str__(self) -> str:
        return self.name

    def order_cards(
        self, fitting: Sequence[int], cards: Sequence[CardView], taken: Sequence[CardTally], request: ContainerRequest
    ) -> list[int]:
        """Return cards in the order in which the plug-in takes them.

        Args:
            fitting: places in `cards` of those that fit.
            cards: those of the node that take new shares.
            taken: what the pod's containers before this one took of each.
            request: what the container asks for.

        Raises:
            PluginError: it fails, or what it says is no number.
        """
        node = [_subtract(card, tally) for card, tally in zip(cards, taken, strict=True)]
        return sorted(fitting, key=lambda place: (self._rank_card(node[place], node, request), place))

    def score_node(self, node: Sequence[CardView], most: int) -> int:
        """Return what the plug-in says; 0 of a node of which no card is known.

        Raises:
            PluginError: it fails, or what it says is no score.
        """
        if not node:
            return 0
        score = self._ask("score_node", lambda: self.plugin.score_node(node, most))
        if not isinstance(score, int) or not 0 <= score <= most:
            raise self._build_error(f"scores a node as {score!r}, which is not a whole number from 0 to {most}")
        return score

    def _rank_card(self, card: CardView, node: Sequence[CardView], request: ContainerRequest) -> float:
        rank = self._ask("rank_card", lambda: self.plugin.rank_card(card, node, request))
        if not isinstance(rank, int | float) or math.isnan(rank):
            raise self._build_error(f"ranks a card as {rank!r}, which is no number")
        return rank

    def _ask(self, function: str, call: Callable[[], _Answer]) -> _Answer:
        try:
            return call()
        except Exception as exc:
            raise self._build_error(f"fails in {function}: {type(exc).__name__}: {exc}") from exc

    def _build_error(self, problem: str) -> PluginError:
        return PluginError(
            f"the policy {self.name} of {self.origin} {problem}",
            next_step="tell its maker, and choose another policy until it is mended",
        )


def _subtract(card: CardView, tally: CardTally) -> CardView:
    untouched = not (tally.whole or tally.memory_bytes or tally.compute or tally.amounts)
    if untouched:
        return card
    free_bytes, free_compute = card.free_bytes - tally.memory_bytes, card.free_compute - tally.compute
    free_amounts = take_off(card.free_amounts, tally.amounts)
    return _CardLeft(card.card, free_bytes, free_compute, empty=False, free_amounts=free_amounts)
