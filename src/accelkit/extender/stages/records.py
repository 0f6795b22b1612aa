"""Keeps what stages found on each node, from the annotations that the watch of nodes shows anyway.

No request is made for it. A result holds for a state of its node: where that is another now, it is stale, and not
green.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from accelkit.model.card import Card
from accelkit.model.node_state import describe_state
from accelkit.model.pod import Node
from accelkit.model.stage import (
    STAGES_ANNOTATION,
    Outcome,
    Stage,
    StageRecord,
    StageResult,
    judge_recorded,
    read_record,
)


@dataclass(slots=True)
class NodeStages:
    """What was found on one node.

    Attributes:
        record: results of its stages; None where they cannot be read.
        boot_id: of its running kernel.
        kernel: that kernel's release.
        successes: when each stage was last found to pass, in Unix seconds, as far as this process has seen.
    """

    text: str
    record: StageRecord | None
    boot_id: str = ""
    kernel: str = ""
    successes: dict[Stage, float] = field(default_factory=dict)

    def judge(self, cards: Sequence[Card] | None) -> Mapping[Stage, StageResult]:
        """Return the results as they stand for the node as it is now; nothing where they cannot be read.

        Args:
            cards: those of its inventory; None where that cannot be read.
        """
        state = describe_state(self.boot_id, self.kernel, cards)
        results = {} if self.record is None else self.record.results
        return {stage: judge_recorded(results[stage], state) for stage in Stage if stage in results}


class StageRecords:
    """The results of all nodes on which a stage has found anything."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeStages] = {}

    def __iter__(self) -> Iterator[tuple[str, NodeStages]]:
        """Yield the nodes by name."""
        return iter(sorted(self._nodes.items()))

    def replace(self, nodes: Sequence[Node]) -> None:
        """Take over a complete list of nodes."""
        for name in self._nodes.keys() - {node.metadata.name for node in nodes}:
            del self._nodes[name]
        for node in nodes:
            self._put(node)

    def take_event(self, kind: str, node: Node) -> None:
        """Take over one change of a node."""
        if kind == "DELETED":
            self._nodes.pop(node.metadata.name, None)
        else:
            self._put(node)

    def _put(self, node: Node) -> None:
        name, text = node.metadata.name, node.find_annotation(STAGES_ANNOTATION)
        if text is None:
            self._nodes.pop(name, None)
            return
        known = self._nodes.get(name)
        info = node.status.node_info
        if known is not None and (known.text, known.boot_id, known.kernel) == (text, info.boot_id, info.kernel_version):
            return
        record = read_record(text)
        successes = {} if known is None else known.successes
        for stage, result in (record.results if record is not None else {}).items():
            if result.outcome is Outcome.PASS:
                successes[stage] = max(result.found_at, successes.get(stage, 0.0))
        # Another object, so that what was made of the former one is made anew.
        self._nodes[name] = NodeStages(text, record, info.boot_id, info.kernel_version, successes)
