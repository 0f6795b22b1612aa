"""Slices of one card per pod, container by container: the public source of Enflame's GCUShare, 2025."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from accelkit.model.units import WHOLE_COMPUTE
from accelkit.vendors.annotations.granted import Granted, read_same_card


class _Container(msgspec.Struct):
    allocated: bool
    request: int


class Slices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="slices"):
    """Annotation keys.

    Attributes:
        card: the driver's number of the card.
        request: slices of the whole pod.
        assigned: `true` once all containers are allocated.
        assumed_at: when it was bound, in nanoseconds of Unix time.
        containers: JSON, per container `allocated` and `request`.
        per_card: how many slices a card has.
    """

    card: str
    request: str
    assigned: str
    assumed_at: str
    containers: str
    per_card: int

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that are written."""
        return (self.card, self.request, self.assigned, self.assumed_at, self.containers)

    def write(self, granted: Granted, now_ns: int) -> dict[str, str]:
        """Return what is written with the Binding; nothing for a pod that has no one card.

        Raises:
            AssignmentError: the card has no number.
        """
        if (facts := self._facts(granted, allocated=False)) is None:
            return {}
        return {**facts, self.assigned: "false", self.assumed_at: str(now_ns)}

    def settle(self, present: Mapping[str, str], granted: Granted, now_ns: int) -> dict[str, str]:  # noqa: ARG002 - others' signature
        """Return what to change once the kubelet has allocated.

        Raises:
            AssignmentError: the card has no number.
        """
        if (facts := self._facts(granted, allocated=True)) is None:
            return {}
        wanted = {**facts, self.assigned: "true"}
        return {key: value for key, value in wanted.items() if present.get(key) != value}

    def read_card_numbers(
        self, present: Mapping[str, str], containers: Sequence[str]
    ) -> Mapping[str, Sequence[int]] | None:
        """Return the numbers of the cards of each of these containers; None where the pod does not say.

        Raises:
            AssignmentError: what it says cannot be.
        """
        text = present.get(self.card, "")
        if not text:
            return None
        return read_same_card(self.card, text, containers)

    def count_slices(self, compute: int) -> int:
        """Return how many slices an amount of compute stands for."""
        return round(compute * self.per_card / WHOLE_COMPUTE)

    def _facts(self, granted: Granted, *, allocated: bool) -> dict[str, str] | None:
        shared = granted.list_memory_shares()
        cards = {share.card for shares in shared.values() for share in shares}
        if len(cards) != 1:
            return None
        counts = {name: sum(self.count_slices(share.compute) for share in shares) for name, shares in shared.items()}
        entries = {name: _Container(allocated, count) for name, count in sorted(counts.items())}
        return {
            self.card: str(granted.find_card_number(cards.pop())),
            self.request: str(sum(counts.values())),
            self.containers: msgspec.json.encode(entries).decode(),
        }
