"""Metrics about the stages of nodes. The text for a node is created once after each node change.

In a cluster with thousands of nodes, these metrics have more lines than all other metrics of the extender. Creating the
lines at each scrape would delay scheduling decisions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from accelkit.extender.stages.records import NodeStages, StageRecords
from accelkit.ledger.ledger import Ledger
from accelkit.model.inventory import Inventory
from accelkit.model.stage import Outcome

_READY: Final = "accelerator_stage_ready"
_FAILURE: Final = "accelerator_stage_failure_info"
_SUCCESS: Final = "accelerator_stage_last_success_timestamp_seconds"
FAMILIES: Final = {
    _READY: "1 if a stage passed on the node, 0 if it failed or is unknown; by the vendors of its cards.",
    _FAILURE: "1 for each stage that did not pass on the node, with the reason.",
    _SUCCESS: "Unix time at which the stage last passed on the node.",
}
# Users can write arbitrary reasons. A series for each text could exhaust the memory of the metrics database.
_REASON: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")
_UNREADABLE: Final = "RecordUnreadable"
# The same applies to the vendor names in an inventory.
_VENDOR: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_OTHER: Final = "other"
_MOST_VENDORS: Final = 4


@dataclass(frozen=True, slots=True)
class _Made:
    """The lines of a node by metric family, and the data from which they were created."""

    stages: NodeStages
    inventory: Inventory | None
    lines: dict[str, str]


class StageTexts:
    """The metric lines of all nodes.

    Args:
        records: the results of the stages.
        ledger: the ledger with the cards of the nodes.
        leads: a function that returns whether this replica is the leader; only the leader reports the stages.
    """

    def __init__(self, records: StageRecords, ledger: Ledger, leads: Callable[[], bool]) -> None:
        self._records = records
        self._ledger = ledger
        self._leads = leads
        self._made: dict[str, _Made] = {}

    def render(self) -> bytes:
        """Return the metrics in the exposition format; empty if another replica is the leader."""
        if not self._leads():
            return b""
        self._made = {name: self._make(name, stages) for name, stages in self._records}
        parts: list[str] = []
        for family, text in FAMILIES.items():
            parts += (
                f"# HELP {family} {text}\n# TYPE {family} gauge\n",
                *(each.lines[family] for each in self._made.values()),
            )
        return "".join(parts).encode()

    def _make(self, name: str, stages: NodeStages) -> _Made:
        entry, made = self._ledger.find_node(name), self._made.get(name)
        inventory = None if entry is None else entry.inventory
        if made is not None and made.stages is stages and made.inventory is inventory:
            return made
        lines = dict.fromkeys(FAMILIES, "")
        for family, labels, value in _list_samples(name, stages, inventory):
            label_text = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
            lines[family] += f"{family}{{{label_text}}} {value}\n"
        return _Made(stages, inventory, lines)


def _list_samples(
    node: str, stages: NodeStages, inventory: Inventory | None
) -> Iterator[tuple[str, dict[str, str], float]]:
    cards = None if inventory is None else inventory.cards
    if stages.record is None:
        yield _FAILURE, {"node": node, "stage": "", "reason": _UNREADABLE}, 1.0
    vendors = sorted({card.vendor if _VENDOR.fullmatch(card.vendor) else _OTHER for card in cards or ()})[
        :_MOST_VENDORS
    ]
    vendors = vendors or [""]
    for stage, result in stages.judge(inventory).items():
        # A stage that is disabled or waits for another stage has no result.
        if result.outcome is Outcome.SKIPPED:
            continue
        ready = result.outcome is Outcome.PASS
        for vendor in vendors:
            yield _READY, {"node": node, "stage": stage.value, "vendor": vendor}, float(ready)
        if not ready:
            reason = result.reason if _REASON.fullmatch(result.reason) else _UNREADABLE
            yield _FAILURE, {"node": node, "stage": stage.value, "reason": reason}, 1.0
    for stage, found_at in sorted(stages.successes.items()):
        yield _SUCCESS, {"node": node, "stage": stage.value}, found_at


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
