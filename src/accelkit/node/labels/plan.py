"""Plans which labels to write and which to delete: from what is wanted, what is there, and what we wrote before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# A device is missing for a moment while its driver is loaded anew.
_ABSENT_LOOKS = 3


@dataclass(frozen=True, slots=True)
class Changes:
    """What to do.

    Attributes:
        write: labels to set.
        delete: keys to delete.
        record: all that is ours afterwards, with the values that we wrote.
        lost: keys that were ours and that somebody else has changed since.
    """

    write: Mapping[str, str]
    delete: frozenset[str]
    record: Mapping[str, str]
    lost: frozenset[str]


def plan(
    wanted: Mapping[str, str], present: Mapping[str, str], recorded: Mapping[str, str], *, by_others: bool = True
) -> Changes:
    """Return how to get from what is there to what is wanted without touching what is not ours.

    A key that is there and that we did not write belongs to somebody else, and so does one of ours whose value is
    another one now.

    Args:
        wanted: the labels that the node should have.
        present: the labels that it has.
        recorded: what we wrote.
        by_others: whether a value that is not what we wrote was written by somebody else; where another service writes
            for us, it may only be late.
    """
    changed = {key for key, value in recorded.items() if key in present and present[key] != value}
    lost = frozenset(changed if by_others else ())
    ours = {key: value for key, value in recorded.items() if key not in lost}
    take = {key: value for key, value in wanted.items() if key in ours or key not in present}
    return Changes(
        write={key: value for key, value in take.items() if present.get(key) != value},
        delete=frozenset(key for key in ours if key not in take and key in present),
        record=take,
        lost=lost,
    )


@dataclass(slots=True)
class Steady:
    """Labels of one source over time: a label is gone only when several whole looks did not show it."""

    _labels: dict[str, str] = field(default_factory=dict)
    _absent: dict[str, int] = field(default_factory=dict)

    def update(self, labels: Mapping[str, str] | None) -> Mapping[str, str]:
        """Take a look into account, None where nothing could be read; return what the source stands for."""
        if labels is None:
            return self._labels
        for key in [key for key in self._labels if key not in labels]:
            self._absent[key] = self._absent.get(key, 0) + 1
            if self._absent[key] >= _ABSENT_LOOKS:
                del self._labels[key], self._absent[key]
        for key in labels:
            self._absent.pop(key, None)
        self._labels |= labels
        return self._labels
