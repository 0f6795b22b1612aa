"""Policies of other distributions: their interface, and the adapter that calls them."""

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
    """A card and its free amounts, which a policy reads and does not change."""

    @property
    def card(self) -> Card:
        """The card as the node agent reports it."""

    @property
    def free_bytes(self) -> int:
        """Memory that no pod holds; negative if pods hold more than exists."""

    @property
    def free_compute(self) -> int:
        """Thousandths of the card's compute that no pod holds."""

    @property
    def empty(self) -> bool:
        """Whether no pod holds any part of the card."""

    @property
    def free_amounts(self) -> Amounts:
        """Free amounts of resources other than memory and compute, by name."""


class _CardLeft(msgspec.Struct, frozen=True, gc=False):
    """A card as the pod's earlier containers leave it."""

    card: Card
    free_bytes: int
    free_compute: int
    empty: bool
    free_amounts: Amounts


@runtime_checkable
class PolicyPlugin(Protocol):
    """Object or module, with these two functions, that an entry point in `accelkit.policies` names.

    The functions are called thousands of times a second, on the event loop of the extender. A call must return within
    microseconds, without I/O. It must return the same result for the same arguments, because scores are cached while a
    node does not change.
    """

    def rank_card(self, card: CardView, node: Sequence[CardView], request: ContainerRequest) -> float:
        """Rank one of the cards that fit: the lowest rank is taken first, and the lowest card number breaks ties.

        Args:
            card: one of `node`.
            node: the cards of the node that take new shares, minus the amounts that the pod's earlier containers took.
            request: the request of the container.
        """

    def score_node(self, node: Sequence[CardView], most: int) -> int:
        """Score a node from 0 to `most`; kube-scheduler adds up the scores of its plugins, and takes the highest sum.

        Args:
            node: all cards of the node.
            most: the score of the best possible node.
        """


@dataclass(frozen=True, slots=True, eq=False)
class PluggedPolicy:
    """A policy of another distribution, with the name that selects it.

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
        """Return the cards in the order in which the plug-in takes them.

        Args:
            fitting: indexes, in `cards`, of the cards that fit.
            cards: the cards of the node that take new shares.
            taken: the amounts of each card that the pod's earlier containers took.
            request: the request of the container.

        Raises:
            PluginError: the plug-in fails, or a rank is not a number.
        """
        node = [_subtract(card, tally) for card, tally in zip(cards, taken, strict=True)]
        return sorted(fitting, key=lambda place: (self._rank_card(node[place], node, request), place))

    def score_node(self, node: Sequence[CardView], most: int) -> int:
        """Return the score that the plug-in computes; 0 for a node without known cards.

        Raises:
            PluginError: the plug-in fails, or its score is invalid.
        """
        if not node:
            return 0
        score = self._call("score_node", lambda: self.plugin.score_node(node, most))
        if not isinstance(score, int) or not 0 <= score <= most:
            raise self._build_error(f"scores a node as {score!r}, which is not a whole number from 0 to {most}")
        return score

    def _rank_card(self, card: CardView, node: Sequence[CardView], request: ContainerRequest) -> float:
        rank = self._call("rank_card", lambda: self.plugin.rank_card(card, node, request))
        if not isinstance(rank, int | float) or math.isnan(rank):
            raise self._build_error(f"ranks a card as {rank!r}, which is not a number")
        return rank

    def _call(self, function: str, call: Callable[[], _Answer]) -> _Answer:
        try:
            return call()
        except Exception as exc:
            raise self._build_error(f"fails in {function}: {type(exc).__name__}: {exc}") from exc

    def _build_error(self, problem: str) -> PluginError:
        return PluginError(
            f"the policy {self.name} of {self.origin} {problem}",
            next_step="report this to its maintainer, and choose another policy until it is repaired",
        )


def _subtract(card: CardView, tally: CardTally) -> CardView:
    untouched = not (tally.whole or tally.memory_bytes or tally.compute or tally.amounts)
    if untouched:
        return card
    free_bytes, free_compute = card.free_bytes - tally.memory_bytes, card.free_compute - tally.compute
    free_amounts = take_off(card.free_amounts, tally.amounts)
    return _CardLeft(card.card, free_bytes, free_compute, empty=False, free_amounts=free_amounts)
