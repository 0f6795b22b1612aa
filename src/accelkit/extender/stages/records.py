"""Results of the stages of each node, which are read by watching nodes and without further requests.

A recorded result applies to one state of its node. If the state has changed, a passed result becomes stale. The results
of the first stages are computed from the current state of the node.
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
class _StageSource:
    """Node data, in addition to the inventory, from which the results are computed.

    Attributes:
        text: the record of the stages; None if the node does not have a record.
        inventoried: whether accelkit's node agent wrote the inventory.
        boot_id: the boot ID of the node.
        kernel: the kernel release of the node.
        chosen: the kernel for which accelkit chose the driver, from the label; empty if accelkit chose no driver.
        gives: whether the kubelet reports an allocatable resource of the node agent.
    """

    text: str | None
    inventoried: bool
    boot_id: str
    kernel: str
    chosen: str
    gives: bool


@dataclass(slots=True)
class NodeStages:
    """Results for one node.

    Attributes:
        source: the data from which the results are computed.
        record: the recorded results; None if they are unreadable.
        successes: the Unix time at which each stage last passed; stages without a known time are omitted.
    """

    source: _StageSource
    record: StageRecord | None
    successes: dict[Stage, float] = field(default_factory=dict)

    def judge(self, inventory: Inventory | None) -> dict[Stage, StageResult]:
        """Return the results for the current state of the node, without unreadable results.

        Args:
            inventory: the inventory of the node; None if it is unreadable.
        """
        source, cards = self.source, None if inventory is None else inventory.cards
        results: dict[Stage, StageResult] = {}
        if source.inventoried and inventory is not None:
            results = judge_inventory(inventory, kernel=source.kernel, chosen=source.chosen, gives=source.gives)
            if any(result.outcome is not Outcome.PASS for result in results.values()):
                # The recorded stages depend on these stages.
                return results
        state = describe_state(source.boot_id, source.kernel, cards)
        recorded = {} if self.record is None else self.record.results
        return results | {stage: judge_recorded(recorded[stage], state) for stage in Stage if stage in recorded}


class StageRecords:
    """Results of all nodes that have an accelkit inventory or a record."""

    def __init__(self) -> None:
        self._nodes: dict[str, NodeStages] = {}

    def __iter__(self) -> Iterator[tuple[str, NodeStages]]:
        """Yield each node's name and results."""
        return iter(sorted(self._nodes.items()))

    def replace(self, nodes: Sequence[Node]) -> None:
        """Apply a complete list of nodes."""
        for name in self._nodes.keys() - {node.metadata.name for node in nodes}:
            del self._nodes[name]
        for node in nodes:
            self._put(node)

    def take_event(self, kind: str, node: Node) -> None:
        """Apply a single node change."""
        if kind == "DELETED":
            self._nodes.pop(node.metadata.name, None)
        else:
            self._put(node)

    def _put(self, node: Node) -> None:
        name, info = node.metadata.name, node.status.node_info
        source = _StageSource(
            text=node.find_annotation(STAGES_ANNOTATION),
            inventoried=node.find_annotation(INVENTORY_ANNOTATION) is not None,
            boot_id=info.boot_id,
            kernel=info.kernel_version,
            chosen=read_chosen_kernel(node),
            gives=gives_any(node),
        )
        if source.text is None and not source.inventoried:
            self._nodes.pop(name, None)
            return
        known = self._nodes.get(name)
        if known is not None and known.source == source:
            return
        record = read_record(source.text)
        successes = {} if known is None else known.successes
        for stage, result in (record.results if record is not None else {}).items():
            if result.outcome is Outcome.PASS:
                successes[stage] = max(result.found_at, successes.get(stage, 0.0))
        # Create a new object, so that all data derived from the previous object is computed again.
        self._nodes[name] = NodeStages(source, record, successes)
