"""Annotation format of Intel's GPU Aware Scheduling, with the names of the cards for each container.

Intel's GPU plugin also reads this format.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from accelkit.errors import AssignmentError
from accelkit.texts import shorten
from accelkit.vendors.annotations.granted import Granted
from accelkit.vendors.card_numbers import parse_card_name


class CardsByContainer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="cards"):
    """Keys of the annotations in this format.

    Attributes:
        cards: the cards, such as `card0,card1|card2`, with one section for each app container. The section is empty for
            a container without cards.
        assumed_at: the time of the Binding, as Unix time in nanoseconds.
    """

    cards_key: str = msgspec.field(name="cards")
    assumed_at: str

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all annotations that accelkit writes."""
        return (self.cards_key, self.assumed_at)

    def write(self, granted: Granted, now_ns: int) -> dict[str, str]:
        """Return the annotations to write with the Binding.

        Raises:
            AssignmentError: a card has no number.
        """
        return {self.cards_key: self._text(granted), self.assumed_at: str(now_ns)}

    def settle(self, present: Mapping[str, str], granted: Granted, now_ns: int) -> dict[str, str]:  # noqa: ARG002 - the signature of all formats
        """Return the annotations to update after the kubelet has allocated the devices.

        Raises:
            AssignmentError: a card has no number.
        """
        text = self._text(granted)
        return {} if present.get(self.cards_key) == text else {self.cards_key: text}

    def read_card_numbers(
        self, present: Mapping[str, str], containers: Sequence[str]
    ) -> Mapping[str, Sequence[int]] | None:
        """Return the card numbers for each of these containers; None if the annotation is missing.

        Raises:
            AssignmentError: the annotation is invalid.
        """
        text = present.get(self.cards_key)
        if not text:
            return None
        parts = text.split("|")
        if len(parts) > len(containers):
            raise AssignmentError(
                f"annotation {self.cards_key} lists {len(parts)} containers, but the pod has {len(containers)}"
            )
        found: dict[str, list[int]] = {}
        for container, part in zip(containers, parts, strict=False):
            names = [name for name in part.split(",") if name]
            numbers = [number for name in names if (number := parse_card_name(name.strip())) is not None]
            if len(numbers) != len(names):
                raise AssignmentError(
                    f"annotation {self.cards_key} is {shorten(text)!r}", next_step="write it as card0,card1|card2"
                )
            if numbers:
                found[container] = numbers
        return found

    def _text(self, granted: Granted) -> str:
        parts = [
            ",".join(
                f"card{number}"
                for number in sorted(granted.find_card_number(share.card) for share in granted.find_shares(name))
            )
            for name in granted.containers
        ]
        return "|".join(parts)
