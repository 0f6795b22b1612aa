"""The stages `driver` and `driver-check`: each card has its vendor's driver for the running kernel and is healthy."""

from __future__ import annotations

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.driver_source import describe_source
from accelkit.enablement.stages.results import failed, passed, unknown
from accelkit.inspection.card_faults import CardFinding, describe_drivers, find_card_fault, find_driver_fault
from accelkit.inspection.provided_driver import read_chosen_kernel
from accelkit.model.stage import StageResult
from accelkit.texts import count_cards


def judge_driver(facts: NodeFacts) -> StageResult:
    """Evaluate whether the cards have their vendors' drivers; the evidence contains the source of the drivers."""
    fault = find_driver_fault(facts.cards)
    return passed(describe_source(facts)) if fault is None else _build_result(facts, fault)


def judge_driver_check(facts: NodeFacts) -> StageResult:
    """Evaluate whether the cards work with the driver for the running kernel."""
    kernel = facts.state.kernel
    fault = find_card_fault(facts.cards, kernel=kernel, chosen=read_chosen_kernel(facts.node))
    if fault is not None:
        return _build_result(facts, fault)
    drivers = describe_drivers(facts.cards, facts.state.drivers, kernel=kernel)
    number = len(facts.cards.cards)
    return passed(f"{count_cards(number)} {'is' if number == 1 else 'are'} healthy; {drivers}")


def _build_result(facts: NodeFacts, fault: CardFinding) -> StageResult:
    build = failed if fault.known else unknown
    return build(facts, StageReason(fault.code), fault.evidence)
