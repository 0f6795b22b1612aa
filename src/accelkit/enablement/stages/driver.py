"""The stages `driver` and `driver-check`: every card has its vendor's driver, for this kernel, and is well.

The agent says of a card that is not well why, in sentences of `accelkit.node.health`; the few that are about the driver
or a lost card are known here by their words, which a test compares with what it writes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.facts.provided_driver import is_for_another_kernel, read_chosen_kernel
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.driver_source import describe_source
from accelkit.enablement.stages.results import failed, passed, unknown
from accelkit.model.card import Card, Health
from accelkit.model.inventory import Inventory
from accelkit.model.stage import StageResult
from accelkit.texts import list_some

_UNBOUND: Final = re.compile(
    r"the driver \S+ is not bound to it any more|the driver \S+ has taken it from |the driver \S+ has it, which is not"
    r"|the device nodes of card \S+ are not known"
)
_LOST: Final = re.compile(r"the card is gone from the PCI bus|the card does not answer on the PCI bus")


def judge_driver(facts: NodeFacts) -> StageResult:
    """Judge whether the cards have their vendors' driver, and whose it is."""
    if unbound := [card for card in _list_unwell(facts.cards) if _UNBOUND.search(card.health_reason)]:
        return failed(facts, StageReason.DRIVER_MISSING, _describe(unbound))
    return passed(describe_source(facts))


def judge_driver_check(facts: NodeFacts) -> StageResult:
    """Judge whether the cards answer, and under the driver that belongs to the kernel."""
    inventory, kernel, chosen = facts.cards, facts.state.kernel, read_chosen_kernel(facts.node)
    if is_for_another_kernel(chosen, kernel):
        evidence = f"the driver was chosen for kernel {chosen}, and {kernel} runs"
        return failed(facts, StageReason.KERNEL_DRIVER_MISMATCH, evidence)
    if (bad := _judge_health(facts, inventory)) is not None:
        return bad
    if several := _find_several_versions(inventory):
        return failed(facts, StageReason.KERNEL_DRIVER_MISMATCH, several)
    if silent := list(_list_silent(inventory)):
        evidence = f"no driver version of {list_some(silent)}: {'; '.join(inventory.library_problems)}"
        return unknown(facts, StageReason.DRIVER_VERSION_UNKNOWN, evidence)
    versions = facts.state.drivers or f"as old as the kernel {kernel}".rstrip()
    return passed(f"{len(inventory.cards)} cards are well; driver {versions}")


def _judge_health(facts: NodeFacts, inventory: Inventory) -> StageResult | None:
    unwell = list(_list_unwell(inventory))
    if lost := [card for card in unwell if _LOST.search(card.health_reason)]:
        return failed(facts, StageReason.CARD_LOST, _describe(lost))
    if unwell:
        return failed(facts, StageReason.CARD_UNHEALTHY, _describe(unwell))
    if unclear := [card for card in inventory.cards if card.health is Health.UNKNOWN]:
        return unknown(facts, StageReason.CARD_HEALTH_UNKNOWN, _describe(unclear))
    return None


def _find_several_versions(inventory: Inventory) -> str:
    """Return which vendor's cards run under several versions: a kernel has one, so a library tells another."""
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for card in inventory.cards:
        if card.driver_version:
            versions[card.vendor].add(card.driver_version)
    several = {vendor: sorted(found) for vendor, found in versions.items() if len(found) > 1}
    return "; ".join(f"cards of {vendor} name the drivers {', '.join(found)}" for vendor, found in several.items())


def _list_unwell(inventory: Inventory) -> Iterator[Card]:
    return (card for card in inventory.cards if card.health is Health.UNHEALTHY)


def _list_silent(inventory: Inventory) -> Iterator[str]:
    """Yield the cards without a driver's version whose vendor's library is what should tell it."""
    vendors = {vendor for problem in inventory.library_problems if (vendor := _read_vendor(problem))}
    return (card.id for card in inventory.cards if not card.driver_version and card.vendor in vendors)


def _read_vendor(problem: str) -> str:
    found = re.match(r"library \S+ of (\S+) is ", problem)
    return found[1] if found else ""


def _describe(cards: Sequence[Card]) -> str:
    return list_some((f"card {card.id}: {card.health_reason or card.health}" for card in cards), most=3)
