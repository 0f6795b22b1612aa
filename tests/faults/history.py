"""What happened since the last moment in which everything held: steps, faults, and what changed of pods."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from faults.checker import Violation
from faults.counting import list_given
from faults.facts import Facts


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

    def explain(self, violations: Iterable[Violation]) -> list[str]:
        """Return the lines that concern violations: all steps and faults, and the changes of pods in question."""
        texts = [f"{each.node} {each.card} {each.pod} {each.detail}" for each in violations]
        concerned = {pod for pod in self._states if any(pod in text for text in texts)}
        cards = {each.card for each in violations if each.card}
        return [
            line
            for line in self._lines
            if " pod " not in line or any(f" pod {pod}:" in line for pod in concerned) or any(c in line for c in cards)
        ]

    def close(self) -> None:
        self._file.close()


def _describe_pods(facts: Facts) -> Iterable[tuple[str, str]]:
    for pod in facts.pods:
        node = facts.nodes.get(pod.node)
        held = facts.given.get(pod.node, {}).get(pod.uid)
        given = list_given(node, pod, held) if node is not None and held is not None else None
        deleting = " deleting" if pod.deleting else ""
        yield pod.path, f"uid={pod.uid} {pod.phase}{deleting} node={pod.node} assigned={pod.assigned} given={given}"
