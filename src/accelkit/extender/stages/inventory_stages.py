"""Results of a node's first stages, computed from its current inventory as in `accelkit verify`, but without I/O.

Pod conditions are not checked. For the device plugin, the only check is whether the kubelet reports allocatable
resources. A node whose inventory was not written by an accelkit node agent does not have stages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from accelkit.inspection.card_faults import CardFinding, find_card_fault, find_driver_fault
from accelkit.model.inventory import Inventory
from accelkit.model.stage import Outcome, Stage, StageResult

_PASSED: Final = StageResult(Outcome.PASS)
_NO_CARDS: Final = "NoCards"
_NOTHING_ALLOCATABLE: Final = "NothingAllocatable"


def judge_inventory(inventory: Inventory, *, kernel: str, chosen: str, gives: bool) -> dict[Stage, StageResult]:
    """Return the results of discover, driver, driver-check and device-plugin, up to the first stage that did not pass.

    Args:
        inventory: the inventory of the node.
        kernel: the release of the running kernel; empty if unknown.
        chosen: the kernel for which accelkit chose the driver, from the label; empty if accelkit chose no driver.
        gives: whether the kubelet reports an allocatable resource of the node agent.
    """
    results: dict[Stage, StageResult] = {}
    for stage, result in _list_results(inventory, kernel, chosen, gives=gives):
        results[stage] = result
        if result.outcome is not Outcome.PASS:
            break
    return results


def _list_results(
    inventory: Inventory, kernel: str, chosen: str, *, gives: bool
) -> Iterator[tuple[Stage, StageResult]]:
    yield Stage.DISCOVER, _PASSED if inventory.cards else StageResult(Outcome.FAIL, _NO_CARDS)
    yield Stage.DRIVER, _build_result(find_driver_fault(inventory))
    yield Stage.DRIVER_CHECK, _build_result(find_card_fault(inventory, kernel=kernel, chosen=chosen))
    yield Stage.DEVICE_PLUGIN, _PASSED if gives else StageResult(Outcome.FAIL, _NOTHING_ALLOCATABLE)


def _build_result(fault: CardFinding | None) -> StageResult:
    if fault is None:
        return _PASSED
    return StageResult(Outcome.FAIL if fault.known else Outcome.UNKNOWN, fault.code.value)
