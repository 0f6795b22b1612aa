"""Interface and adapter for policies from other distributions."""

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
    """A read-only view of a card and its free amounts."""

    @property
    def card(self) -> Card:
        """The card as the node agent reports it."""

    @property
    def free_bytes(self) -> int:
        """The free memory; negative if the card is over capacity."""

    @property
    def free_compute(self) -> int:
        """The free compute, in thousandths of the card."""

    @property
    def empty(self) -> bool:
        """Whether no pod has a share of the card."""

    @property
    def free_amounts(self) -> Amounts:
        """The free amounts of resources other than memory and compute, by name."""


class _CardLeft(msgspec.Struct, frozen=True, gc=False):
    """A card, minus the amounts that are assigned to preceding containers of the pod."""

    card: Card
    free_bytes: int
    free_compute: int
    empty: bool
    free_amounts: Amounts


@runtime_checkable
class PolicyPlugin(Protocol):
    """An object or module with these two functions, to which an entry point in the group `accelkit.policies` refers.

    The extender calls the functions thousands of times per second on its event loop. A call must return within
    microseconds, without I/O. It must return the same result for the same arguments, because scores are cached until
    the node changes.
    """

    def rank_card(self, card: CardView, node: Sequence[CardView], request: ContainerRequest) -> float:
        """Return the rank of a card that fits.

        The card with the lowest rank is used first. If ranks are equal, the card with the lowest number is used first.

        Args:
            card: the card, which is one of `node`.
            node: the cards of the node that accept new shares, minus the amounts that are assigned to preceding
                containers of the pod.
            request: the request of the container.
        """

    def score_node(self, node: Sequence[CardView], most: int) -> int:
        """Return the score of a node, from 0 to `most`.

        kube-scheduler adds the scores from all plugins, and chooses the node with the highest sum.

        Args:
            node: all cards of the node.
            most: the maximum score.
        """


@dataclass(frozen=True, slots=True, eq=False)
class PluggedPolicy:
    """A policy from another distribution.

    Attributes:
        origin: the name of the distribution, with its version.
    """

    name: str
    plugin: PolicyPlugin
    origin: str

    def __str__(self) -> str:
        return self.name

    def order_cards(
        self, fitting: Sequence[int], cards: Sequence[CardView], taken: Sequence[CardTally], request: ContainerRequest
    ) -> list[int]:
        """Return the cards that fit, in the order of their ranks.

        Args:
            fitting: the indexes, in `cards`, of the cards that fit.
            cards: the cards of the node that accept new shares.
            taken: the amounts of each card that are assigned to preceding containers of the pod.
            request: the request of the container.

        Raises:
            PluginError: the plug-in failed, or a rank is not a number.
        """
        node = [_subtract(card, tally) for card, tally in zip(cards, taken, strict=True)]
        return sorted(fitting, key=lambda place: (self._rank_card(node[place], node, request), place))

    def score_node(self, node: Sequence[CardView], most: int) -> int:
        """Return the score that the plug-in computes; 0 for a node without known cards.

        Raises:
            PluginError: the plug-in failed, or its score is invalid.
        """
        if not node:
            return 0
        score = self._call("score_node", lambda: self.plugin.score_node(node, most))
        if not isinstance(score, int) or not 0 <= score <= most:
            raise self._build_error(f"the score {score!r} is not a whole number from 0 to {most}")
        return score

    def _rank_card(self, card: CardView, node: Sequence[CardView], request: ContainerRequest) -> float:
        rank = self._call("rank_card", lambda: self.plugin.rank_card(card, node, request))
        if not isinstance(rank, int | float) or math.isnan(rank):
            raise self._build_error(f"the rank {rank!r} is not a number")
        return rank

    def _call(self, function: str, call: Callable[[], _Answer]) -> _Answer:
        try:
            return call()
        except Exception as exc:
            raise self._build_error(f"{function} failed with {type(exc).__name__}: {exc}") from exc

    def _build_error(self, problem: str) -> PluginError:
        return PluginError(
            f"cannot use policy {self.name} of {self.origin}: {problem}",
            next_step="report this to its maintainer, and use another policy until it is fixed",
        )


def _subtract(card: CardView, tally: CardTally) -> CardView:
    untouched = not (tally.whole or tally.memory_bytes or tally.compute or tally.amounts)
    if untouched:
        return card
    free_bytes, free_compute = card.free_bytes - tally.memory_bytes, card.free_compute - tally.compute
    free_amounts = take_off(card.free_amounts, tally.amounts)
    return _CardLeft(card.card, free_bytes, free_compute, empty=False, free_amounts=free_amounts)
