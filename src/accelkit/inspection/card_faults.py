"""Detection of faults in a node's inventory: card faults, driver faults, and drivers for a different kernel.

The node agent reports the reason why a card is unhealthy as a sentence from `accelkit.node.health`. This module
identifies sentences about drivers with patterns. A test compares these patterns with the agent's sentences.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from accelkit.inspection.provided_driver import is_for_another_kernel
from accelkit.model.card import Card, Health
from accelkit.model.card_loss import is_lost
from accelkit.model.inventory import Inventory
from accelkit.texts import list_some

_UNBOUND: Final = re.compile(
    r"the driver \S+ is no longer bound to the card|the driver \S+ is bound to the card(?: instead of |, which is not)"
    # Agents of previous releases use these sentences.
    r"|the driver \S+ is not bound to it any more|the driver \S+ has taken it from |the driver \S+ has it, which is not"
    r"|the device nodes of card \S+ are not known"
)

# Patterns for sentences about a vendor's library: the library is missing, or it exists but does not return data.
_MISSING: Final = re.compile(r"library \S+ of (\S+) is missing")
_UNANSWERED: Final = re.compile(r"library \S+ of (\S+) is (?!missing)")


class CardFaultCode(StrEnum):
    """Fault codes. The page docs/reference/stage-reasons.md explains each code."""

    DRIVER_MISSING = "DriverMissing"
    KERNEL_DRIVER_MISMATCH = "KernelDriverMismatch"
    DRIVER_VERSION_UNKNOWN = "DriverVersionUnknown"
    CARD_LOST = "CardLost"
    CARD_UNHEALTHY = "CardUnhealthy"
    CARD_HEALTH_UNKNOWN = "CardHealthUnknown"


@dataclass(frozen=True, slots=True)
class CardFinding:
    """A fault of a node's cards, or the reason why data about the cards is missing.

    Attributes:
        evidence: a sentence that describes the facts.
        known: whether the fault is certain. It is false if the data is insufficient for a decision.
    """

    code: CardFaultCode
    evidence: str
    known: bool = True


def find_driver_fault(inventory: Inventory) -> CardFinding | None:
    """Return the fault if some cards do not use their vendor's driver; None if all cards use this driver."""
    unbound = [card for card in _list_unwell(inventory) if _UNBOUND.search(card.health_reason)]
    return CardFinding(CardFaultCode.DRIVER_MISSING, _describe(unbound)) if unbound else None


def find_card_fault(inventory: Inventory, *, kernel: str, chosen: str) -> CardFinding | None:
    """Return the fault that prevents cards from working with the driver for this kernel; None if there is no fault.

    Args:
        inventory: the inventory of the node.
        kernel: the release of the running kernel; empty if unknown.
        chosen: the kernel for which accelkit selected the driver, as a label value; empty if accelkit did not select a
            driver.
    """
    if is_for_another_kernel(chosen, kernel):
        evidence = f"the driver was chosen for kernel {chosen}, but the node runs kernel {kernel}"
        return CardFinding(CardFaultCode.KERNEL_DRIVER_MISMATCH, evidence)
    if (bad := _judge_health(inventory)) is not None:
        return bad
    if several := _find_several_versions(inventory):
        return CardFinding(CardFaultCode.KERNEL_DRIVER_MISMATCH, several)
    if silent := list(_list_silent(inventory)):
        evidence = f"the driver version of {list_some(silent)} is unknown: {'; '.join(inventory.library_problems)}"
        return CardFinding(CardFaultCode.DRIVER_VERSION_UNKNOWN, evidence, known=False)
    return None


def describe_drivers(inventory: Inventory, versions: str, *, kernel: str) -> str:
    """Return a phrase that contains the cards' driver versions, or the reason why the driver version is unknown.

    Args:
        inventory: the inventory of the node.
        versions: the driver versions in the state of the node; empty if no driver reports its version.
        kernel: the release of the running kernel; empty if unknown.
    """
    if versions:
        return f"driver {versions}"
    vendors = {card.vendor for card in inventory.cards}
    missing = [problem for problem in inventory.library_problems if _read_vendor(_MISSING, problem) in vendors]
    return f"driver version unknown ({'; '.join(missing)})" if missing else f"driver of the kernel {kernel}".rstrip()


def _judge_health(inventory: Inventory) -> CardFinding | None:
    unwell = list(_list_unwell(inventory))
    if lost := [card for card in unwell if is_lost(card)]:
        return CardFinding(CardFaultCode.CARD_LOST, _describe(lost))
    if unwell:
        return CardFinding(CardFaultCode.CARD_UNHEALTHY, _describe(unwell))
    if unclear := [card for card in inventory.cards if card.health is Health.UNKNOWN]:
        return CardFinding(CardFaultCode.CARD_HEALTH_UNKNOWN, _describe(unclear), known=False)
    return None


def _find_several_versions(inventory: Inventory) -> str:
    """Return a phrase that lists the vendors with cards that report different driver versions; empty if there are none.

    A kernel can use only one version, so different versions indicate that a library does not match the driver.
    """
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for card in inventory.cards:
        if card.driver_version:
            versions[card.vendor].add(card.driver_version)
    several = {vendor: sorted(found) for vendor, found in versions.items() if len(found) > 1}
    return "; ".join(f"cards of {vendor} report the drivers {', '.join(found)}" for vendor, found in several.items())


def _list_unwell(inventory: Inventory) -> Iterator[Card]:
    return (card for card in inventory.cards if card.health is Health.UNHEALTHY)


def _list_silent(inventory: Inventory) -> Iterator[str]:
    """Yield the IDs of cards for which the vendor's library exists, but does not report a driver version.

    Cards without a library are not included, because some cards require only the kernel driver.
    """
    vendors = {vendor for problem in inventory.library_problems if (vendor := _read_vendor(_UNANSWERED, problem))}
    return (card.id for card in inventory.cards if not card.driver_version and card.vendor in vendors)


def _read_vendor(kind: re.Pattern[str], problem: str) -> str:
    found = kind.match(problem)
    return found[1] if found else ""


def _describe(cards: Sequence[Card]) -> str:
    return list_some((f"card {card.id}: {card.health_reason or card.health}" for card in cards), most=3)
