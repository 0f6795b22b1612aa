"""The stages `driver` and `driver-check`: every card has its vendor's driver, for this kernel, and is well."""

from __future__ import annotations

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.driver_source import describe_source
from accelkit.enablement.stages.results import failed, passed, unknown
from accelkit.inspection.card_faults import CardFault, describe_drivers, find_card_fault, find_driver_fault
from accelkit.inspection.provided_driver import read_chosen_kernel
from accelkit.model.stage import StageResult
from accelkit.texts import count_cards


def judge_driver(facts: NodeFacts) -> StageResult:
    """Judge whether the cards have their vendors' driver, and whose it is."""
    fault = find_driver_fault(facts.cards)
    return passed(describe_source(facts)) if fault is None else _tell(facts, fault)


def judge_driver_check(facts: NodeFacts) -> StageResult:
    """Judge whether the cards answer, and under the driver that belongs to the kernel."""
    kernel = facts.state.kernel
    fault = find_card_fault(facts.cards, kernel=kernel, chosen=read_chosen_kernel(facts.node))
    if fault is not None:
        return _tell(facts, fault)
    drivers = describe_drivers(facts.cards, facts.state.drivers, kernel=kernel)
    number = len(facts.cards.cards)
    return passed(f"{count_cards(number)} {'is' if number == 1 else 'are'} well; {drivers}")


def _tell(facts: NodeFacts, fault: CardFault) -> StageResult:
    tell = failed if fault.known else unknown
    return tell(facts, StageReason(fault.code), fault.evidence)
