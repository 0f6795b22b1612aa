"""Shows what stages found on the nodes, as text: each node's lines are made once for each change of it.

On a cluster of thousands of nodes these are more lines than all others of the extender, and while they were made anew
at each scrape, nobody would get a decision.
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
    _READY: "1 where a stage passed on the node, 0 where it failed or nobody knows; by the vendors of its cards.",
    _FAILURE: "1 for each stage that did not pass on the node, with the reason.",
    _SUCCESS: "When the stage last passed on the node.",
}
# A series for whatever somebody wrote there would be a way to fill the memory of who stores them.
_REASON: Final = re.compile(r"[A-Z][A-Za-z0-9]{0,63}")
_UNREADABLE: Final = "RecordUnreadable"
# The same goes for what an agent calls the vendors of its cards.
_VENDOR: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_OTHER: Final = "other"
_MOST_VENDORS: Final = 4


@dataclass(frozen=True, slots=True)
class _Made:
    """A node's lines by family, and of what they were made."""

    stages: NodeStages
    inventory: Inventory | None
    lines: dict[str, str]


class StageTexts:
    """The lines of all nodes.

    Args:
        records: what stages found.
        ledger: knows the nodes' cards.
        leads: whether this replica leads; of several, one shows them.
    """

    def __init__(self, records: StageRecords, ledger: Ledger, leads: Callable[[], bool]) -> None:
        self._records = records
        self._ledger = ledger
        self._leads = leads
        self._made: dict[str, _Made] = {}

    def render(self) -> bytes:
        """Return the exposition text; nothing where another replica shows it."""
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
            shown = ",".join(f'{key}="{_escape(label)}"' for key, label in labels.items())
            lines[family] += f"{family}{{{shown}}} {value}\n"
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
        # What is not wanted, or waits for another stage, has nothing to say.
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
