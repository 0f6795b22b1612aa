"""Annotation format of Enflame's GCUShare from 2022 and Aliyun's gpushare, with the number of a pod's only card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from accelkit.vendors.annotations.granted import Granted, read_same_card


class OneCard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="one-card"):
    """Keys of the annotations in this format.

    Attributes:
        card: the number of the card.
        request: the total number of memory units that the pod requests.
        capacity: the number of memory units of the card.
        assigned: the state, which is `false` after the Binding, and `true` after the allocation.
        assumed_at: the time of the Binding, as Unix time in nanoseconds.
        assigned_at: the time of the allocation, as Unix time in nanoseconds; empty if the system does not have this
            key.
    """

    card: str
    request: str
    capacity: str
    assigned: str
    assumed_at: str
    assigned_at: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all annotations that accelkit writes."""
        keys = (self.card, self.request, self.capacity, self.assigned, self.assumed_at, self.assigned_at)
        return tuple(key for key in keys if key)

    def write(self, granted: Granted, now_ns: int) -> dict[str, str]:
        """Return the annotations to write with the Binding; empty if the pod does not have exactly one card.

        Raises:
            AssignmentError: the card has no number.
        """
        if (facts := self._facts(granted)) is None:
            return {}
        return {**facts, self.assigned: "false", self.assumed_at: str(now_ns)}

    def settle(self, present: Mapping[str, str], granted: Granted, now_ns: int) -> dict[str, str]:
        """Return the annotations to update after the kubelet has allocated the devices; empty if they are up to date.

        Raises:
            AssignmentError: the card has no number.
        """
        if (facts := self._facts(granted)) is None:
            return {}
        desired = {**facts, self.assigned: "true"}
        if self.assigned_at and present.get(self.assigned) != "true":
            desired[self.assigned_at] = str(now_ns)
        return {key: value for key, value in desired.items() if present.get(key) != value}

    def read_card_numbers(
        self, present: Mapping[str, str], containers: Sequence[str]
    ) -> Mapping[str, Sequence[int]] | None:
        """Return the number of the card for each of these containers; None if the annotation is missing.

        Raises:
            AssignmentError: the annotation is invalid.
        """
        text = present.get(self.card, "")
        if not text or text == "-1":
            return None
        return read_same_card(self.card, text, containers)

    def _facts(self, granted: Granted) -> dict[str, str] | None:
        shares = [share for held in granted.list_memory_shares().values() for share in held]
        if len({share.card for share in shares}) != 1:
            return None
        card = shares[0].card
        return {
            self.card: str(granted.find_card_number(card)),
            self.request: str(granted.count_units(*shares)),
            self.capacity: str(granted.cards[card].capacity_bytes // granted.unit_bytes),
        }
