"""Validation of a node's new driver, based on the node agent's inventory and the stage `driver-check`."""

from __future__ import annotations

import msgspec

from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.reasons import DriverReason
from accelkit.model.card import Health
from accelkit.model.keys import STAGES_ANNOTATION
from accelkit.model.stage import Outcome, Stage, read_record
from accelkit.texts import list_some, shorten


class Validation(msgspec.Struct, frozen=True):
    """The state of a driver.

    Attributes:
        works: whether the driver works; if not, the upgrade waits.
        reason: the reason why the driver does not work yet.
        evidence: the evidence, as a sentence.
    """

    works: bool
    reason: DriverReason | None = None
    evidence: str = ""


def validate(node: DriverNode, vendor: str, target: str, *, began_at: float = 0.0) -> Validation:
    """Return whether the driver of a node works.

    Args:
        node: the node.
        vendor: the vendor of the cards.
        target: the desired version; empty for any version, including an unknown version.
        began_at: the start time of the upgrade in Unix seconds; earlier stage results are ignored.
    """
    reason, evidence = _find_obstacle(node, vendor, target)
    return Validation(works=False, reason=reason, evidence=evidence) if reason else _read_stage(node, began_at)


def _find_obstacle(node: DriverNode, vendor: str, target: str) -> tuple[DriverReason | None, str]:
    cards = [card for card in node.cards or () if card.vendor == vendor]
    found = node.list_drivers(vendor)
    sick = [card for card in cards if card.health is Health.UNHEALTHY]
    if node.ready is not True:
        return "NodeNotReady", "the node is not ready"
    if node.cards is None:
        return "DriverVersionUnknown", "its node agent has not published a readable inventory"
    if not cards:
        return "DriverMissing", f"its inventory has no {vendor} cards"
    if target and found != (target,):
        unnamed = f"some {vendor} cards do not report their driver version, but {target} is required"
        other = f"its cards report {shorten(', '.join(found))}, but {target} is required"
        return ("DriverVersionUnknown", unnamed) if "" in found else ("DriverOther", other)
    text = f"{list_some(card.id for card in sick)}: {shorten(sick[0].health_reason) or 'not healthy'}" if sick else ""
    return ("CardUnhealthy", text) if sick else (None, "")


def _read_stage(node: DriverNode, began_at: float) -> Validation:
    # A missing or earlier result is ignored. The upgrade does not wait for a new result, because only verify.yml runs
    # the stage.
    record = read_record(node.annotations.get(STAGES_ANNOTATION))
    result = record.results.get(Stage.DRIVER_CHECK) if record else None
    if result is None or result.outcome is not Outcome.FAIL or result.found_at < began_at:
        return Validation(works=True)
    state = result.state
    if state is not None and (state.boot_id, state.kernel) != (node.boot_id, node.kernel):
        return Validation(works=True)
    text = f"the stage {Stage.DRIVER_CHECK} failed with {result.reason}: {result.evidence}"
    return Validation(works=False, reason="CheckFailed", evidence=text)
