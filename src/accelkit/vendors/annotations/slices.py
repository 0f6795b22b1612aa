"""Annotation format of Enflame's GCUShare from 2025, with the slices of a pod's only card for each container."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from accelkit.model.units import WHOLE_COMPUTE
from accelkit.vendors.annotations.granted import Granted, read_same_card


class _Container(msgspec.Struct):
    allocated: bool
    request: int


class Slices(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="slices"):
    """Keys of the annotations in this format, and the number of slices.

    Attributes:
        card: the number that the driver assigned to the card.
        request: the total number of slices that the pod requests.
        assigned: the state, which is `false` after the Binding, and `true` after the allocation.
        assumed_at: the time of the Binding, as Unix time in nanoseconds.
        containers: a JSON object with `allocated` and `request` for each container.
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
        """The keys of all annotations that accelkit writes."""
        return (self.card, self.request, self.assigned, self.assumed_at, self.containers)

    def write(self, granted: Granted, now_ns: int) -> dict[str, str]:
        """Return the annotations to write with the Binding; empty if the pod does not have exactly one card.

        Raises:
            AssignmentError: the card has no number.
        """
        if (facts := self._facts(granted, allocated=False)) is None:
            return {}
        return {**facts, self.assigned: "false", self.assumed_at: str(now_ns)}

    def settle(self, present: Mapping[str, str], granted: Granted, now_ns: int) -> dict[str, str]:  # noqa: ARG002 - the signature of all formats
        """Return the annotations to update after the kubelet has allocated the devices.

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
        """Convert an amount of compute to a number of slices."""
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
