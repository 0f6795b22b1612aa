"""The administrator's sharing rules: quotas for namespaces, and cards that are reserved for certain pods.

The module does not perform I/O. Its input is a loaded YAML document.
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
    """The limits for each of the selected namespaces. Amounts without a value are not limited.

    Attributes:
        namespaces: the names of namespaces, with the wildcards `*`, `?` and `[…]` of file name patterns. The quota
            applies to each namespace separately.
        memory: the memory of shared cards, for example `64GiB`.
        cards: the number of whole cards and of cards that containers request by number.
        compute: the compute of shared cards, in thousandths of a card.
    """

    namespaces: tuple[str, ...]
    memory: str | int | None = None
    cards: int | None = None
    compute: int | None = None

    @property
    def memory_bytes(self) -> int | None:
        """The memory limit in bytes."""
        if self.memory is None:
            return None
        return 0 if self.memory in {0, "0"} else parse_size(str(self.memory))


class Allowed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A selection of pods that may use reserved cards, by namespace, minimum priority, or both."""

    namespaces: tuple[str, ...] = ()
    priority: int | None = None

    def allows(self, namespace: str, priority: int) -> bool:
        """Return whether a pod is selected."""
        named = not self.namespaces or _matches(namespace, self.namespaces)
        return named and (self.priority is None or priority >= self.priority)

    def __str__(self) -> str:
        named = [*self.namespaces[:_MOST_NAMED], *(["…"] if len(self.namespaces) > _MOST_NAMED else [])]
        words = [f"namespace{'s' if len(named) > 1 else ''} {', '.join(named)}"] if named else []
        if self.priority is not None:
            words.append(f"priority {self.priority} and above")
        return " with ".join(words)


class ReservedCards(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A selection of cards. A field without a value matches all cards.

    Attributes:
        nodes: the names of nodes, with the wildcards `*`, `?` and `[…]`.
        model: the model of the cards.
        ids: the IDs of the cards.
        count: the maximum number of selected cards on each node, in the order of its inventory.
    """

    nodes: tuple[str, ...] = ("*",)
    model: str = ""
    ids: tuple[str, ...] = ()
    count: int | None = None

    def list_cards(self, node: str, cards: Sequence[Card]) -> Iterator[str]:
        """Yield the IDs of the matching cards of a node."""
        if not _matches(node, self.nodes):
            return
        found = [card.id for card in cards if self.model in {"", card.model} and (not self.ids or card.id in self.ids)]
        yield from found[: self.count]


class Reservation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"allowed": "for"}):
    """A reservation of cards that only certain pods may use.

    Attributes:
        name: the unique name, which appears in messages to users.
        cards: the selections of cards. A card that matches any selection is reserved.
        allowed: the selections of pods. A pod that matches any selection may use the cards.
    """

    name: str
    cards: tuple[ReservedCards, ...]
    allowed: tuple[Allowed, ...]

    @property
    def whom(self) -> str:
        """A description of the pods that may use the cards."""
        return f"{' or '.join(map(str, self.allowed))} ({self.name})"


class SharingRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All sharing rules. If several rules match a namespace or card, the first rule applies."""

    quotas: tuple[Quota, ...] = ()
    reservations: tuple[Reservation, ...] = ()

    def find_quota(self, namespace: str) -> Quota | None:
        """Return the quota of a namespace; None if there is none."""
        return next((quota for quota in self.quotas if _matches(namespace, quota.namespaces)), None)

    def close(self, request: PodRequest, namespace: str, priority: int) -> PodRequest:
        """Return a copy of a pod's request with the names of the reservations that exclude the pod."""
        closed = frozenset(
            each.name
            for each in self.reservations
            if not any(allowed.allows(namespace, priority) for allowed in each.allowed)
        )
        if all(container.closed == closed for container in request.containers):
            return request
        return PodRequest(tuple(msgspec.structs.replace(each, closed=closed) for each in request.containers))

    def find_reserved(self, node: str, cards: Sequence[Card]) -> Mapping[str, Reserved]:
        """Return the reservations of a node's cards, by card ID."""
        found: dict[str, Reserved] = {}
        for reservation in self.reservations:
            reserved = Reserved(reservation.name, reservation.whom)
            for some in reservation.cards:
                for card in some.list_cards(node, cards):
                    found.setdefault(card, reserved)
        return found


NO_RULES: Final = SharingRules()


def read_rules(document: object) -> SharingRules:
    """Return the rules from a loaded YAML document. An empty document contains no rules.

    Raises:
        ConfigurationError: the document does not contain valid rules. The message contains the cause.
    """
    try:
        rules = msgspec.convert({} if document is None else document, SharingRules)
    except (msgspec.ValidationError, RecursionError) as exc:
        raise ConfigurationError(f"the sharing rules are invalid: {exc}") from exc
    for number, quota in enumerate(rules.quotas):
        _validate_quota(f"quotas[{number}]", quota)
    names = set[str]()
    for number, reservation in enumerate(rules.reservations):
        place = f"reservations[{number}]"
        unique = bool(reservation.name) and reservation.name not in names
        _demand(unique, f"{place}: name is empty or not unique")
        names.add(reservation.name)
        _demand(bool(reservation.cards), f"{place}: cards is empty; use [{{}}] to select all cards")
        _demand(bool(reservation.allowed), f"{place}: for is empty; set the namespaces or the priority of the pods")
        for allowed in reservation.allowed:
            limited = bool(allowed.namespaces) or allowed.priority is not None
            _demand(limited, f"{place}: an entry of for contains neither namespaces nor priority")
        for cards in reservation.cards:
            _demand(cards.count is None or cards.count > 0, f"{place}: count must be at least 1")
            _demand(bool(cards.nodes), f"{place}: nodes is empty; omit it to select all nodes")
    return rules


def judge_quota(quota: Quota, namespace: str, held: QuotaAmounts, requested: QuotaAmounts) -> Misfit | None:
    """Return the misfit if a request would exceed the quota of a namespace; None if it would not.

    Amounts that a pod does not request are not checked, even if the namespace exceeds their limits.
    """
    limits = (
        ("memory", quota.memory_bytes, held.memory_bytes, requested.memory_bytes, format_bytes),
        ("cards", quota.cards, held.cards, requested.cards, str),
        ("compute of one card", quota.compute, held.compute, requested.compute, _format_compute),
    )
    for name, limit, has, more, form in limits:
        if limit is not None and more and has + more > limit:
            sentence = (
                f"namespace {namespace} holds {form(has)} of its quota of {form(limit)} ({name}); "
                f"the pod requests {form(more)}"
            )
            return Misfit(MisfitReason.QUOTA, detail=sentence, resolvable=False)
    return None


def _validate_quota(place: str, quota: Quota) -> None:
    _demand(bool(quota.namespaces), f"{place}: namespaces is empty; use ['*'] to select all namespaces")
    limits = quota.cards, quota.compute
    _demand(quota.memory is not None or any(each is not None for each in limits), f"{place}: no limit is set")
    _demand(all(each is None or each >= 0 for each in limits), f"{place}: a limit is negative")
    try:
        _ = quota.memory_bytes
    except QuantityError as exc:
        raise ConfigurationError(
            f"the sharing rules are invalid: {place}: memory: {exc.message}", next_step="use a quantity such as 64GiB"
        ) from exc


def _demand(holds: bool, problem: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        raise ConfigurationError(f"the sharing rules are invalid: {problem}")


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _format_compute(amount: int) -> str:
    return f"{amount / 10:g} %"
