"""Judges the first stages of a node from its inventory as it is now, as `accelkit verify` does, without a request.

What rests on pods and kubelets is not judged here. A node whose inventory no agent of accelkit's wrote has no stages.
"""

from __future__ import annotations

from accelkit.inspection.card_faults import CardFault, find_card_fault, find_driver_fault
from accelkit.model.inventory import Inventory
from accelkit.model.stage import Outcome, Stage, StageResult

_NO_CARDS = "NoCards"


def judge_seen(inventory: Inventory, *, kernel: str, chosen: str) -> dict[Stage, StageResult]:
    """Return the results of discover, driver and driver-check; of the first that did not pass, no later ones.

    Args:
        inventory: of the node.
        kernel: the release that runs; empty where nobody tells it.
        chosen: the kernel for which accelkit chose the driver, as a label has it; empty where it chose none.
    """
    if not inventory.cards:
        return {Stage.DISCOVER: StageResult(Outcome.FAIL, _NO_CARDS)}
    results = {Stage.DISCOVER: StageResult(Outcome.PASS), Stage.DRIVER: _tell(find_driver_fault(inventory))}
    if results[Stage.DRIVER].outcome is Outcome.PASS:
        results[Stage.DRIVER_CHECK] = _tell(find_card_fault(inventory, kernel=kernel, chosen=chosen))
    return results


def _tell(fault: CardFault | None) -> StageResult:
    if fault is None:
        return StageResult(Outcome.PASS)
    return StageResult(Outcome.FAIL if fault.known else Outcome.UNKNOWN, fault.code.value)
