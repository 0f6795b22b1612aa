"""Plan of the labels to write and delete, based on the desired, current and recorded labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# A device may be missing briefly while its driver is reloaded.
_MAX_ABSENT_READS = 3


@dataclass(frozen=True, slots=True)
class LabelChanges:
    """The changes to a node's labels.

    Attributes:
        write: the labels to set.
        delete: the keys to delete.
        record: the labels that accelkit manages after the change, with their values.
        lost: the keys that accelkit managed until another client changed them.
    """

    write: Mapping[str, str]
    delete: frozenset[str]
    record: Mapping[str, str]
    lost: frozenset[str]


def plan(
    desired: Mapping[str, str], present: Mapping[str, str], recorded: Mapping[str, str], *, by_others: bool = True
) -> LabelChanges:
    """Return the changes that are required to reach the desired labels. Labels from other clients are not changed.

    A label belongs to another client if accelkit did not write it, or if its value differs from the recorded value.

    Args:
        desired: the desired labels of the node.
        present: the current labels of the node.
        recorded: the labels that accelkit wrote.
        by_others: whether a value that differs from the recorded value was written by another client. If another
            service writes labels for accelkit, the difference may be caused by a delay.
    """
    changed = {key for key, value in recorded.items() if key in present and present[key] != value}
    lost = frozenset(changed if by_others else ())
    own = {key: value for key, value in recorded.items() if key not in lost}
    record = {key: value for key, value in desired.items() if key in own or key not in present}
    return LabelChanges(
        write={key: value for key, value in record.items() if present.get(key) != value},
        delete=frozenset(key for key in own if key not in record and key in present),
        record=record,
        lost=lost,
    )


@dataclass(slots=True)
class DebouncedLabels:
    """Labels from one source. A label is removed only after several consecutive complete reads without it."""

    _labels: dict[str, str] = field(default_factory=dict)
    _absent: dict[str, int] = field(default_factory=dict)

    def update(self, labels: Mapping[str, str] | None) -> Mapping[str, str]:
        """Apply the result of one read (None if the read failed); return the current labels from the source."""
        if labels is None:
            return self._labels
        for key in [key for key in self._labels if key not in labels]:
            self._absent[key] = self._absent.get(key, 0) + 1
            if self._absent[key] >= _MAX_ABSENT_READS:
                del self._labels[key], self._absent[key]
        for key in labels:
            self._absent.pop(key, None)
        self._labels |= labels
        return self._labels
