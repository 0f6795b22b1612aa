"""The stage `discover`: the node exists, the kubelet is ready, and the agent has published the node's cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.results import failed, passed, skipped, unknown
from accelkit.errors import InventoryError
from accelkit.install.owned_metadata import read_share_label
from accelkit.model.inventory import Inventory
from accelkit.model.keys import SHARED
from accelkit.model.label_record import read_label_record
from accelkit.model.stage import StageResult
from accelkit.texts import count_cards
from accelkit.vendors.profiles import find_profiles


def judge_discover(facts: NodeFacts) -> StageResult:
    """Evaluate whether the node's cards are known."""
    if (left_out := _judge_sharing(facts)) is not None:
        return left_out
    ready = facts.node.ready
    if ready is None or ready.status != "True":
        problem = "has never reported readiness" if ready is None else f"is not ready: {ready.message or ready.reason}"
        return unknown(
            facts,
            StageReason.NODE_NOT_READY,
            f"its kubelet {problem.rstrip('.')}; other data about the node may be outdated",
        )
    return _judge_inventory(facts, facts.inventory)


def _judge_inventory(facts: NodeFacts, inventory: Inventory | InventoryError | None) -> StageResult:
    if inventory is None:
        return unknown(facts, StageReason.INVENTORY_MISSING, "its agent has not published an inventory")
    if isinstance(inventory, InventoryError):
        return unknown(facts, StageReason.INVENTORY_UNREADABLE, inventory.message)
    if not inventory.cards:
        return failed(facts, StageReason.NO_CARDS, "its agent found no cards")
    if more := "; ".join(_list_higher_counts(facts, inventory)):
        return failed(facts, StageReason.CARDS_MISSING, more)
    return passed(_describe_cards(inventory))


def _judge_sharing(facts: NodeFacts) -> StageResult | None:
    label = read_share_label(facts.node)
    if label == SHARED:
        return None
    state = "is missing" if label is None else f"is {label!r}"
    owner = f"; {facts.holders.cards} manages the node" if facts.holders.cards else ""
    evidence = f"its label accelkit.io/share {state}{owner}"
    # A node that the user requested must be shared, unless its label disables sharing.
    required = facts.named and label is None
    return (
        failed(facts, StageReason.NOT_SHARED, evidence)
        if required
        else skipped(facts, StageReason.NOT_SHARED, evidence)
    )


def _list_higher_counts(facts: NodeFacts, inventory: Inventory) -> Iterator[str]:
    """Yield the vendors for which a label from another program reports more cards than the inventory contains."""
    ours = read_label_record(facts.node)
    labels = facts.node.metadata.labels or {}
    counts = Counter(card.vendor for card in inventory.cards)
    for vendor, profile in find_profiles().profiles.items():
        for key, pattern in profile.labels.items():
            if pattern != "{count}" or key in ours or key not in labels:
                continue
            with suppress(ValueError):
                if (count := int(labels[key])) > counts[vendor]:
                    yield f"label {key} counts {count_cards(count)}, the inventory has {counts[vendor]} of {vendor}"


def _describe_cards(inventory: Inventory) -> str:
    kinds = Counter((card.vendor, card.model) for card in inventory.cards)
    listed = ", ".join(f"{count} x {model} ({vendor})" for (vendor, model), count in sorted(kinds.items()))
    cordoned = sum(card.cordoned for card in inventory.cards)
    return f"{listed}{f'; {cordoned} excluded from placement' if cordoned else ''}"
