"""Keeps what stages found on each node, from what the watch of nodes shows anyway.

No request is made for it. A recorded result holds for a state of its node: where that is another now, it is stale, and
not green. The stages before are judged from the node as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from accelkit.extender.stages.inventory_stages import judge_inventory
from accelkit.inspection.provided_driver import read_chosen_kernel
from accelkit.model.inventory import Inventory
from accelkit.model.keys import INVENTORY_ANNOTATION, STAGES_ANNOTATION
from accelkit.model.node_state import describe_state
from accelkit.model.pod import Node
from accelkit.model.stage import Outcome, Stage, StageRecord, StageResult, judge_recorded, read_record
from accelkit.vendors.advertised import gives_any


@dataclass(frozen=True, slots=True)
class _Seen:
    """What of a node its stages are judged by, beside its inventory.

    Attributes:
        text: the record of its stages; None where it has none.
        inventoried: whether an agent of accelkit's wrote its inventory.
        boot_id: of its running kernel.
        kernel: that kernel's release.
        chosen: the kernel for which accelkit chose its driver, as a label has it; empty where it chose none.
        gives: whether its kubelet has anything allocatable of what the agent advertises.
    """

    text: str | None
    inventoried: bool
    boot_id: str
    kernel: str
    chosen: str
    gives: bool


@dataclass(slots=True)
class NodeStages:
    """What was found on one node.

    Attributes:
        seen: of what it was made.
        record: results of its stages; None where they cannot be read.
        successes: when each stage was last found to pass, in Unix seconds, as far as this process has seen.
    """

    seen: _Seen
    record: StageRecord | None
    successes: dict[Stage, float] = field(default_factory=dict)

    def judge(self, inventory: Inventory | None) -> dict[Stage, StageResult]:
        """Return the results as they stand for the node as it is now; of those that cannot be read, none.

        Args:
            inventory: None where it cannot be read.
        """
        seen, cards = self.seen, None if inventory is None else inventory.cards
        results: dict[Stage, StageResult] = {}
        if seen.inventoried and inventory is not None:
            results = judge_inventory(inventory, kernel=seen.kernel, chosen=seen.chosen, gives=seen.gives)
            if any(result.outcome is not Outcome.PASS for result in results.values()):
                # What was recorded waits for these.
                return results
        state = describe_state(seen.boot_id, seen.kernel, cards)
        recorded = {} if self.record is None else self.record.results
        return results | {stage: judge_recorded(recorded[stage], state) for stage in Stage if stage in recorded}


class StageRecords:
    """The results of all nodes that have an inventory of accelkit's, or a record."""

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
        name, info = node.metadata.name, node.status.node_info
        seen = _Seen(
            text=node.find_annotation(STAGES_ANNOTATION),
            inventoried=node.find_annotation(INVENTORY_ANNOTATION) is not None,
            boot_id=info.boot_id,
            kernel=info.kernel_version,
            chosen=read_chosen_kernel(node),
            gives=gives_any(node),
        )
        if seen.text is None and not seen.inventoried:
            self._nodes.pop(name, None)
            return
        known = self._nodes.get(name)
        if known is not None and known.seen == seen:
            return
        record = read_record(seen.text)
        successes = {} if known is None else known.successes
        for stage, result in (record.results if record is not None else {}).items():
            if result.outcome is Outcome.PASS:
                successes[stage] = max(result.found_at, successes.get(stage, 0.0))
        # Another object, so that what was made of the former one is made anew.
        self._nodes[name] = NodeStages(seen, record, successes)
