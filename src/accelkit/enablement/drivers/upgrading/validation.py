"""Whether a node's new driver works: by what the node's agent reports, and by the stage that checks drivers."""

from __future__ import annotations

import msgspec

from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.model.card import Health
from accelkit.model.keys import STAGES_ANNOTATION
from accelkit.model.stage import Outcome, Stage, read_record
from accelkit.texts import list_some, shorten


class Validation(msgspec.Struct, frozen=True):
    """What is known of a driver.

    Attributes:
        works: whether it is known to work; otherwise it is waited for.
        reason: why not yet, one of `accelkit.enablement.drivers.reasons.REASONS`.
        evidence: what was seen, as a sentence.
    """

    works: bool
    reason: str = ""
    evidence: str = ""


def validate(node: DriverNode, vendor: str, target: str, *, began_at: float = 0.0) -> Validation:
    """Judge the driver of a node.

    Args:
        node: as it is.
        vendor: of the cards.
        target: the version that is wanted; empty where any will do, also one that nobody can tell.
        began_at: Unix seconds at which the upgrade began; what a stage found before says nothing.
    """
    reason, evidence = _find_obstacle(node, vendor, target)
    return Validation(works=False, reason=reason, evidence=evidence) if reason else _read_stage(node, began_at)


def _find_obstacle(node: DriverNode, vendor: str, target: str) -> tuple[str, str]:
    cards = [card for card in node.cards or () if card.vendor == vendor]
    found = node.list_drivers(vendor)
    sick = [card for card in cards if card.health is Health.UNHEALTHY]
    if node.ready is not True:
        return "NodeNotReady", "the node is not ready"
    if node.cards is None:
        return "DriverVersionUnknown", "its agent has published no inventory that can be read"
    if not cards:
        return "DriverMissing", f"its inventory has no card of {vendor}"
    if target and found != (target,):
        unnamed = f"cards of {vendor} do not name their driver, and {target} is wanted"
        other = f"its cards report {shorten(', '.join(found))}, and {target} is wanted"
        return ("DriverVersionUnknown", unnamed) if "" in found else ("DriverOther", other)
    why = f"{list_some(card.id for card in sick)}: {shorten(sick[0].health_reason) or 'not healthy'}" if sick else ""
    return ("CardUnhealthy", why) if sick else ("", "")


def _read_stage(node: DriverNode, began_at: float) -> Validation:
    # A check that nobody ran since says nothing, and is not waited for: a run of verify.yml does it.
    record = read_record(node.annotations.get(STAGES_ANNOTATION))
    result = record.results.get(Stage.DRIVER_CHECK) if record else None
    if result is None or result.outcome is not Outcome.FAIL or result.found_at < began_at:
        return Validation(works=True)
    state = result.state
    if state is not None and (state.boot_id, state.kernel) != (node.boot_id, node.kernel):
        return Validation(works=True)
    text = f"the stage {Stage.DRIVER_CHECK} failed with {result.reason}: {result.evidence}"
    return Validation(works=False, reason="CheckFailed", evidence=text)
