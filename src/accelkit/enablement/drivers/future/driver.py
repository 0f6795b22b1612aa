"""Prediction of whether a node will work with a different driver version, based on its delivery and kernel caches."""

from __future__ import annotations

from collections.abc import Iterator

from accelkit.enablement.drivers.future.answers import (
    Answer,
    Aspect,
    FutureFacts,
    FutureVersions,
    Works,
    answer,
    find_worst,
)
from accelkit.enablement.drivers.future.kernel import DriverDelivery, judge_image, judge_package
from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.enablement.drivers.reasons import DriverReason
from accelkit.kernelcache.compatibility.node_facts import NodeHardware
from accelkit.kernelcache.compatibility.verdicts import Fit, judge
from accelkit.texts import list_some


def judge_driver(node: DriverNode, question: FutureVersions, delivery: DriverDelivery, facts: FutureFacts) -> Answer:
    """Return the worst answer about the delivery of this driver version to a node and about the kernel caches."""
    vendors = [vendor for vendor in node.vendors if not question.vendor or vendor == question.vendor]
    if not vendors:
        which = f"of {question.vendor}" if question.vendor else "that need a driver"
        return _answer(node, Works.YES, "Works", f"the node has no cards {which}")
    found = [*_judge_delivery(node, vendors, question, delivery, facts), *_judge_caches(node, question, facts)]
    worst = find_worst(found)
    if worst is None or worst.works is Works.YES:
        # The drivers on the hosts were not checked.
        state = "has to be installed on the host" if delivery.mode == "preinstalled" else "is available"
        text = f"the driver {question.driver} {state}, and every kernel cache that loads now will still load"
        return _answer(node, Works.YES, "Works", text)
    return worst


def _judge_delivery(
    node: DriverNode, vendors: list[str], question: FutureVersions, delivery: DriverDelivery, facts: FutureFacts
) -> Iterator[Answer]:
    for vendor in vendors:
        driver = delivery.drivers.get(vendor)
        if delivery.mode == "preinstalled":
            # The administrator installs the driver, so only the effects of the driver are evaluated.
            continue
        if driver is None:
            yield _answer(node, Works.UNKNOWN, "NotConfigured", f"accelkit_driver_vendors does not contain {vendor}")
        elif delivery.mode == "package":
            yield judge_package(node, Aspect.DRIVER, facts, f"of {question.driver}")
        elif delivery.mode == "kmm" and not delivery.module_manager:
            yield _answer(node, Works.NO, "NoModuleManager", "KMM is not installed in the cluster")
        else:
            yield judge_image(node, Aspect.DRIVER, vendor, node.kernel, driver, facts=facts, version=question.driver)


def _judge_caches(node: DriverNode, question: FutureVersions, facts: FutureFacts) -> Iterator[Answer]:
    if facts.caches is None:
        yield _answer(node, Works.UNKNOWN, "CachesUnknown", "the kernel caches of the cluster could not be read")
        return
    if not facts.caches:
        return
    if node.cards is None:
        yield _answer(
            node, Works.UNKNOWN, "CardsUnknown", "its cards are unknown, so the kernel caches for them are unknown"
        )
        return
    cards = [card for card in node.cards if not question.vendor or card.vendor == question.vendor]
    before, after = (
        NodeHardware.from_inventory(
            cards, cpu_architecture=node.architecture or None, labels=node.labels, driver_version=version
        )
        for version in (None, question.driver)
    )
    unread = sorted(name for name, labels in facts.caches.items() if labels is None)
    read = {name: labels for name, labels in sorted(facts.caches.items()) if labels is not None}
    # Ignore caches that cannot be loaded before the change.
    today = {name: judge(labels, before).fit for name, labels in read.items()}
    then = {name: judge(read[name], after).fit for name, fit in today.items() if fit is not Fit.NONE}
    if lost := [name for name, fit in then.items() if fit is Fit.NONE]:
        text = f"these kernel caches would not load with {question.driver}: {list_some(lost)}"
        yield _answer(node, Works.NO, "CachesUseless", text)
    if unverified := [name for name, fit in then.items() if fit is Fit.UNKNOWN]:
        text = f"it is unknown whether these kernel caches load with {question.driver}: {list_some(unverified)}"
        yield _answer(node, Works.UNKNOWN, "CachesUncertain", text)
    if unread:
        yield _answer(
            node, Works.UNKNOWN, "CachesUnknown", f"these kernel caches could not be read: {list_some(unread)}"
        )


def _answer(node: DriverNode, works: Works, reason: DriverReason, evidence: str) -> Answer:
    return answer(node.name, Aspect.DRIVER, works, reason, evidence)
