"""Whether a node works with another version of a driver: its delivery, and what that means for kernel caches."""

from __future__ import annotations

from collections.abc import Iterator

from accelkit.enablement.drivers.future.answers import Answer, Aspect, Facts, Question, Works, answer, find_worst
from accelkit.enablement.drivers.future.kernel import Delivery, judge_image, judge_package
from accelkit.enablement.drivers.nodes import DriverNode
from accelkit.kernelcache.compatibility.node_facts import NodeFacts
from accelkit.kernelcache.compatibility.verdicts import Fit, judge
from accelkit.texts import list_some


def judge_driver(node: DriverNode, question: Question, delivery: Delivery, facts: Facts) -> Answer:
    """Answer whether a node works with this version of the driver: the worst of delivery and caches."""
    vendors = [vendor for vendor in node.vendors if not question.vendor or vendor == question.vendor]
    if not vendors:
        whose = f"of {question.vendor}" if question.vendor else "that need a driver"
        return _say(node, Works.YES, "Works", f"the node has no cards {whose}")
    found = [*_judge_delivery(node, vendors, question, delivery, facts), *_judge_caches(node, question, facts)]
    worst = find_worst(found)
    if worst is None or worst.works is Works.YES:
        # Of hosts that bring their drivers nothing was looked for.
        there = "has to be brought by the host" if delivery.mode == "preinstalled" else "is there"
        text = f"the driver {question.driver} {there}, and no kernel cache that loads today is lost by it"
        return _say(node, Works.YES, "Works", text)
    return worst


def _judge_delivery(
    node: DriverNode, vendors: list[str], question: Question, delivery: Delivery, facts: Facts
) -> Iterator[Answer]:
    for vendor in vendors:
        driver = delivery.drivers.get(vendor)
        if delivery.mode == "preinstalled":
            # Whoever installs it there knows that it is there; what is asked is what follows.
            continue
        if driver is None:
            yield _say(node, Works.UNKNOWN, "NotConfigured", f"accelkit_driver_vendors says nothing of {vendor}")
        elif delivery.mode == "package":
            yield judge_package(node, Aspect.DRIVER, facts, f"of {question.driver}")
        elif delivery.mode == "kmm" and not delivery.module_manager:
            yield _say(node, Works.NO, "NoModuleManager", "the cluster has no KMM")
        else:
            yield judge_image(node, Aspect.DRIVER, vendor, node.kernel, driver, facts=facts, version=question.driver)


def _judge_caches(node: DriverNode, question: Question, facts: Facts) -> Iterator[Answer]:
    if facts.caches is None:
        yield _say(node, Works.UNKNOWN, "CachesUnknown", "the kernel caches of the cluster could not be read")
        return
    if not facts.caches:
        return
    if node.cards is None:
        yield _say(node, Works.UNKNOWN, "CardsUnknown", "its cards are not known, so neither are caches for them")
        return
    cards = [card for card in node.cards if not question.vendor or card.vendor == question.vendor]
    before, after = (
        NodeFacts.from_inventory(
            cards, cpu_architecture=node.architecture or None, labels=node.labels, driver_version=version
        )
        for version in (None, question.driver)
    )
    unread = sorted(name for name, labels in facts.caches.items() if labels is None)
    read = {name: labels for name, labels in sorted(facts.caches.items()) if labels is not None}
    # What does not load today is no loss.
    today = {name: judge(labels, before).fit for name, labels in read.items()}
    then = {name: judge(read[name], after).fit for name, fit in today.items() if fit is not Fit.NONE}
    if lost := [name for name, fit in then.items() if fit is Fit.NONE]:
        text = f"kernel caches that would not load with {question.driver}: {list_some(lost)}"
        yield _say(node, Works.NO, "CachesUseless", text)
    if doubtful := [name for name, fit in then.items() if fit is Fit.UNKNOWN]:
        text = f"whether these kernel caches load with {question.driver} is not known: {list_some(doubtful)}"
        yield _say(node, Works.UNKNOWN, "CachesUncertain", text)
    if unread:
        yield _say(node, Works.UNKNOWN, "CachesUnknown", f"kernel caches that could not be read: {list_some(unread)}")


def _say(node: DriverNode, works: Works, reason: str, evidence: str) -> Answer:
    return answer(node.name, Aspect.DRIVER, works, reason, evidence)
