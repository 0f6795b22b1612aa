"""Answers to a question about all nodes."""

from __future__ import annotations

from collections.abc import Iterable

from accelkit.enablement.drivers.future.answers import Answer, FutureFacts, FutureVersions
from accelkit.enablement.drivers.future.driver import judge_driver
from accelkit.enablement.drivers.future.kernel import DriverDelivery, judge_kernel
from accelkit.enablement.drivers.future.kubernetes import judge_kubernetes
from accelkit.enablement.drivers.nodes import DriverNode


def judge_future(
    nodes: Iterable[DriverNode], question: FutureVersions, delivery: DriverDelivery, facts: FutureFacts
) -> tuple[Answer, ...]:
    """Return the answers for each node, one for each future version."""
    found = list[Answer]()
    for node in nodes:
        if question.kernel:
            found.append(judge_kernel(node, question.kernel, delivery, facts))
        if question.kubernetes:
            found.append(judge_kubernetes(node, question.kubernetes, facts))
        if question.driver:
            found.append(judge_driver(node, question, delivery, facts))
    return tuple(found)
