"""The administrator's rules of sharing: quotas of namespaces, and cards that are reserved for some pods.

No I/O: the rules come as what YAML has been read to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from accelkit.errors import ConfigurationError, QuantityError
from accelkit.model.card import Card
from accelkit.model.request import PodRequest
from accelkit.model.units import format_bytes, parse_size
from accelkit.placement.misfit import Misfit, MisfitReason
from accelkit.placement.sharing.bars import Reserved
from accelkit.placement.sharing.quota_amounts import QuotaAmounts

_MOST_NAMED: Final = 4


class Quota(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What each of some namespaces may hold at most; what is not named is not limited.

    Attributes:
        namespaces: names, in which `*`, `?` and `[…]` are those of file names; each namespace has the quota for itself.
        memory: of shared cards, as `64GiB`.
        cards: how many whole cards.
        compute: of shared cards, in thousandths of a card.
    """

    namespaces: tuple[str, ...]
    memory: str | int | None = None
    cards: int | None = None
    compute: int | None = None

    @property
    def memory_bytes(self) -> int | None:
        """The limit of memory in bytes."""
        if self.memory is None:
            return None
        return 0 if self.memory in {0, "0"} else parse_size(str(self.memory))


class Allowed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pods for whom cards are reserved: those of some namespaces, of a priority, or both at once."""

    namespaces: tuple[str, ...] = ()
    priority: int | None = None

    def allows(self, namespace: str, priority: int) -> bool:
        """Whether a pod is one of them."""
        named = not self.namespaces or _matches(namespace, self.namespaces)
        return named and (self.priority is None or priority >= self.priority)

    def __str__(self) -> str:
        named = [*self.namespaces[:_MOST_NAMED], *(["…"] if len(self.namespaces) > _MOST_NAMED else [])]
        words = [f"namespace{'s' if len(named) > 1 else ''} {', '.join(named)}"] if named else []
        if self.priority is not None:
            words.append(f"priority {self.priority} and above")
        return " with ".join(words)


class ReservedCards(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Some cards of some nodes; what is not named is any.

    Attributes:
        nodes: names, with `*`, `?` and `[…]`.
        model: of the cards.
        ids: their identities.
        count: so many of them on each node, the first in the order of its inventory.
    """

    nodes: tuple[str, ...] = ("*",)
    model: str = ""
    ids: tuple[str, ...] = ()
    count: int | None = None

    def list_cards(self, node: str, cards: Sequence[Card]) -> Iterator[str]:
        """Return the identities of those that a node has."""
        if not _matches(node, self.nodes):
            return
        found = [card.id for card in cards if self.model in {"", card.model} and (not self.ids or card.id in self.ids)]
        yield from found[: self.count]


class Reservation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"allowed": "for"}):
    """Cards that only some pods may have.

    Attributes:
        name: told to users; no other reservation has it.
        cards: all of these.
        allowed: any of these.
    """

    name: str
    cards: tuple[ReservedCards, ...]
    allowed: tuple[Allowed, ...]

    @property
    def whom(self) -> str:
        """For whom they are, in words."""
        return f"{' or '.join(map(str, self.allowed))} ({self.name})"


class SharingRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All rules; of several that name the same namespace or card, the first counts."""

    quotas: tuple[Quota, ...] = ()
    reservations: tuple[Reservation, ...] = ()

    def find_quota(self, namespace: str) -> Quota | None:
        """Return the quota of a namespace; None where it has none."""
        return next((quota for quota in self.quotas if _matches(namespace, quota.namespaces)), None)

    def close(self, request: PodRequest, namespace: str, priority: int) -> PodRequest:
        """Return a pod's request with the reservations that are not for it."""
        closed = frozenset(
            each.name
            for each in self.reservations
            if not any(allowed.allows(namespace, priority) for allowed in each.allowed)
        )
        if all(container.closed == closed for container in request.containers):
            return request
        return PodRequest(tuple(msgspec.structs.replace(each, closed=closed) for each in request.containers))

    def find_reserved(self, node: str, cards: Sequence[Card]) -> Mapping[str, Reserved]:
        """Return for whom the cards of a node are reserved, by their identities."""
        found: dict[str, Reserved] = {}
        for reservation in self.reservations:
            reserved = Reserved(reservation.name, reservation.whom)
            for some in reservation.cards:
                for card in some.list_cards(node, cards):
                    found.setdefault(card, reserved)
        return found


NO_RULES: Final = SharingRules()


def read_rules(document: object) -> SharingRules:
    """Read the rules from what YAML was read to; nothing at all means none.

    Raises:
        ConfigurationError: they are not rules, with what is wrong.
    """
    try:
        rules = msgspec.convert({} if document is None else document, SharingRules)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise ConfigurationError(f"the sharing rules are wrong: {exc}") from exc
    for number, quota in enumerate(rules.quotas):
        _check_quota(f"quotas[{number}]", quota)
    names = set[str]()
    for number, reservation in enumerate(rules.reservations):
        place = f"reservations[{number}]"
        _demand(bool(reservation.name) and reservation.name not in names, f"{place}: its name is empty, or twice there")
        names.add(reservation.name)
        _demand(bool(reservation.cards), f"{place}: it names no cards")
        _demand(bool(reservation.allowed), f"{place}: it is for nobody; say for whom")
        for allowed in reservation.allowed:
            _demand(bool(allowed.namespaces) or allowed.priority is not None, f"{place}: an entry of for names nobody")
        for cards in reservation.cards:
            _demand(cards.count is None or cards.count > 0, f"{place}: count is at least 1")
            _demand(bool(cards.nodes), f"{place}: it names no nodes; leave nodes out for all")
    return rules


def judge_quota(quota: Quota, namespace: str, held: QuotaAmounts, asked: QuotaAmounts) -> Misfit | None:
    """Return why a namespace may not have more; None where it may.

    What a pod does not ask for does not count against it, however much of it the namespace holds.
    """
    limits = (
        ("memory", quota.memory_bytes, held.memory_bytes, asked.memory_bytes, format_bytes),
        ("whole cards", quota.cards, held.cards, asked.cards, str),
        ("one card's compute", quota.compute, held.compute, asked.compute, _format_compute),
    )
    for name, limit, has, wants, form in limits:
        if limit is not None and wants and has + wants > limit:
            sentence = (
                f"namespace {namespace} holds {form(has)} of its quota of {form(limit)} of {name}; "
                f"the pod asks for {form(wants)}"
            )
            return Misfit(MisfitReason.QUOTA, detail=sentence, resolvable=False)
    return None


def _check_quota(place: str, quota: Quota) -> None:
    _demand(bool(quota.namespaces), f"{place}: it names no namespaces")
    limits = quota.cards, quota.compute
    _demand(quota.memory is not None or any(each is not None for each in limits), f"{place}: it limits nothing")
    _demand(all(each is None or each >= 0 for each in limits), f"{place}: a limit is negative")
    try:
        _ = quota.memory_bytes
    except QuantityError as exc:
        raise ConfigurationError(
            f"the sharing rules are wrong: {place}: memory: {exc.message}", next_step="write it as 64GiB, or in bytes"
        ) from exc


def _demand(holds: bool, problem: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise ConfigurationError(f"the sharing rules are wrong: {problem}")


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _format_compute(amount: int) -> str:
    return f"{amount / 10:g} %"
