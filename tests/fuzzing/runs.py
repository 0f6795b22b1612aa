"""Runs rounds of fuzzing: which subjects there are, and what many rounds of one found."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from fuzzing.cluster import ClusterRound
from fuzzing.documents import DocumentsRound
from fuzzing.kubelet import KubeletRound
from fuzzing.rounds import FindingError, Tally, describe_exception, reading_log, shorten

from accelkit.vendors.dialects import list_dialect_names

# Long enough for nodes to fill up and empty, short enough to be read when one fails.
OBJECTS_PER_ROUND: Final = 400


class Round(Protocol):
    """Many objects that follow from one seed."""

    tally: Tally

    async def run(self, objects: int) -> None:
        """Let so many objects come and go."""


SUBJECTS: Final[Mapping[str, Callable[[random.Random], Round]]] = {
    **{f"cluster/{name}": partial(ClusterRound, dialect=name) for name in list_dialect_names()},
    **{f"kubelet/{name}": partial(KubeletRound, dialect=name) for name in list_dialect_names(advertised=True)},
    "documents": DocumentsRound,
}


@dataclass
class Findings:
    """What does not hold, by kind: in how many rounds, the first of them, and the finding there."""

    by_kind: dict[str, tuple[int, int, str]] = field(default_factory=dict)

    def add(self, kind: str, count: int, first: int, text: str) -> None:
        """Count findings of one kind in."""
        before, earlier, shown = self.by_kind.get(kind, (0, first, text))
        self.by_kind[kind] = (before + count, *min((first, text), (earlier, shown)))


def run_rounds(subject: str, seed: int, numbers: Iterable[int]) -> tuple[Tally, Findings]:
    """Run these rounds of a subject; the same seed and number make the same round."""
    tally, findings = Tally(), Findings()
    for number in numbers:
        each = SUBJECTS[subject](random.Random(f"{subject} {seed} {number}"))  # noqa: S311 - to be drawn again
        try:
            with reading_log():
                asyncio.run(each.run(OBJECTS_PER_ROUND))
        except FindingError as exc:
            findings.add(exc.kind, 1, number, str(exc))
        except Exception as exc:  # noqa: BLE001 - of whatever kind, it is what is looked for
            findings.add(f"raises {describe_exception(exc)}", 1, number, shorten(str(exc)))
        tally.add(each.tally)
    return tally, findings
