"""Annotation format of Enflame's GCUShare, as published in 2025: the slices of a pod's only card, by container."""

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
        card: the number that the driver assigns to the card.
        request: the number of slices of the whole pod.
        assigned: `false` after the Binding, `true` after the allocation.
        assumed_at: the time of the Binding, in nanoseconds of Unix time.
        containers: JSON with `allocated` and `request` for each container.
        per_card: the number of slices per card.
    """

    card: str
    request: str
    assigned: str
    assumed_at: str
    containers: str
    per_card: int

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all annotations that are written."""
        return (self.card, self.request, self.assigned, self.assumed_at, self.containers)

    def write(self, granted: Granted, now_ns: int) -> dict[str, str]:
        """Return the annotations to write with the Binding; none for a pod without exactly one card.

        Raises:
            AssignmentError: the card has no number.
        """
        if (facts := self._facts(granted, allocated=False)) is None:
            return {}
        return {**facts, self.assigned: "false", self.assumed_at: str(now_ns)}

    def settle(self, present: Mapping[str, str], granted: Granted, now_ns: int) -> dict[str, str]:  # noqa: ARG002 - the signature of all formats
        """Return the annotations to change after the kubelet has allocated the devices.

        Raises:
            AssignmentError: the card has no number.
        """
        if (facts := self._facts(granted, allocated=True)) is None:
            return {}
        desired = {**facts, self.assigned: "true"}
        return {key: value for key, value in desired.items() if present.get(key) != value}

    def read_card_numbers(
        self, present: Mapping[str, str], containers: Sequence[str]
    ) -> Mapping[str, Sequence[int]] | None:
        """Return the number of the card for each of these containers; None if the annotation is missing.

        Raises:
            AssignmentError: the annotation is invalid.
        """
        text = present.get(self.card, "")
        if not text:
            return None
        return read_same_card(self.card, text, containers)

    def count_slices(self, compute: int) -> int:
        """Return an amount of compute as a number of slices."""
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
