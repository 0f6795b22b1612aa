"""What happened since the last moment in which everything held: steps, faults, and what changed of pods."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from faults.checker import Violation
from faults.counting import list_given
from faults.facts import Facts

# Lines of which there are many, for each pod and each card.
_PARTICULAR = re.compile(r" *[\d.]+ (pod |does not hold: )")
MOST_LINES = 12
MOST_CHARACTERS = 400


class History:
    """A log of the storm in seconds since it began.

    Args:
        file: gets every line; the lines since the last clean check are kept in memory too.
    """

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._file = file.open("w", buffering=1)
        self._began = time.monotonic()
        self._lines: list[str] = []
        self._states: dict[str, str] = {}

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def note(self, text: str) -> None:
        line = f"{self.seconds:8.2f} {text}"
        self._lines.append(line)
        print(line, file=self._file)

    def follow(self, facts: Facts) -> None:
        """Note what changed of pods since the last facts."""
        states = dict(_describe_pods(facts))
        for pod in sorted(self._states.keys() | states.keys()):
            if self._states.get(pod) != states.get(pod):
                self.note(f"pod {pod}: {states.get(pod, 'gone')}")
        self._states = states

    def forget(self) -> None:
        """Forget the lines: everything holds now."""
        self._lines.clear()

    def explain(self, violations: Sequence[Violation]) -> list[str]:
        """Return all steps and faults, and of the other lines those that name the pods or cards of violations."""
        words = list_words(violations)
        return [
            line
            for line in self._lines
            if not _PARTICULAR.match(line) or any(f"{word}{end}" in line for word in words for end in ":, '")
        ]

    def close(self) -> None:
        self._file.close()


def list_words(violations: Iterable[Violation]) -> set[str]:
    """Return the names of the pods and cards of violations."""
    pods = {pod for each in violations for pod in each.pod.split(", ")}
    return {word for word in (*pods, *(each.card for each in violations)) if word}


def find_log_lines(folder: Path, violations: Iterable[Violation]) -> list[str]:
    """Return the lines of logs that name the pods of violations, the latest ones of each log."""
    pods = {pod for each in violations for pod in each.pod.split(", ") if pod}
    found = []
    # The output of each start of a process; files that services write themselves say the same.
    for file in sorted(folder.rglob("*.*.log")):
        lines = [line for line in file.read_text(errors="replace").splitlines() if any(f"{p} " in line for p in pods)]
        found += [f"{file.stem}: {line[:MOST_CHARACTERS]}" for line in lines[-MOST_LINES:]]
    return found


def _describe_pods(facts: Facts) -> Iterable[tuple[str, str]]:
    for pod in facts.pods:
        node = facts.nodes.get(pod.node)
        held = facts.given.get(pod.node, {}).get(pod.uid)
        given = list_given(node, pod, held) if node is not None and held is not None else None
        deleting = " deleting" if pod.deleting else ""
        yield pod.path, f"uid={pod.uid} {pod.phase}{deleting} node={pod.node} assigned={pod.assigned} given={given}"
