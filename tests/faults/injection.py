"""A wrong assignment that an administrator writes: the checker and `accelkit audit` must both find it."""

from __future__ import annotations

import asyncio
import json
import random
import signal
from collections.abc import Awaitable, Callable

from faults.checker import Violation
from faults.facts import WHOLE, Facts, Pod
from faults.laboratory import Laboratory
from faults.observer import Observer
from faults.standstill import MachineClock

from accelkit.errors import ApiError

FIND_SECONDS = 20.0


async def inject(laboratory: Laboratory, observer: Observer, note: Callable[[str], None], chance: float) -> None:
    """Write a wrong assignment while its node's agent is stopped, see that it is found, and let the agent go on.

    What is not found is reported to the observer; whether the agent puts it right, the next calm shows.
    """
    facts = observer.facts
    chosen = choose(facts, chance) if facts is not None else None
    if chosen is None:
        note("nothing to inject: no pod has memory of one card of several")
        return
    pod, container, other = chosen
    agent = laboratory.members[laboratory.name_host("agents", pod.node)]
    observer.follow_faults(True)
    agent.send(signal.SIGSTOP)
    try:
        amount = next(iter((pod.assigned or {})[container].values()))
        assigned = {container: [{"card": other, "memory_bytes": amount}]}
        text = json.dumps({"version": 1, "containers": assigned})
        note(f"injecting {text} into {pod.path}")
        body = {"metadata": {"uid": pod.uid, "annotations": {"accelkit.io/assignment": text}}}
        try:
            await laboratory.api.patch(f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}", body)
        except ApiError as exc:
            note(f"not injected: {exc}")
            return

        async def checker_finds() -> bool:
            return any(each.kind == "assignment_differs" and each.pod == pod.path for each in observer.found or ())

        async def audit_finds() -> bool:
            return any(each["pod"] == pod.path for each in await observer.audit(wait_seconds=0) or ())

        for who, finds in {"checker": checker_finds, "audit": audit_finds}.items():
            if not await until(finds, observer.clock):
                what = f"the {who} does not find the assignment that was injected into {pod.path}"
                observer.report(Violation("audit_disagrees", pod.node, pod=pod.path, detail=what))
    finally:
        agent.send(signal.SIGCONT)
        observer.follow_faults(False)


def choose(facts: Facts, chance: float) -> tuple[Pod, str, str] | None:
    """Return a pod with memory of one card, its container, and another card of its node."""
    found = [
        (pod, container, other)
        for pod in sorted(facts.pods, key=lambda each: each.path)
        if pod.phase == "Running" and not pod.deleting and pod.node in facts.nodes
        for container, shares in (pod.assigned or {}).items()
        if len(shares) == len(pod.assigned or {}) == 1 and WHOLE not in shares.values()
        for other in sorted(facts.nodes[pod.node].cards.keys() - shares.keys())
    ]
    return random.Random(chance).choice(found) if found else None


async def until(question: Callable[[], Awaitable[bool]], clock: MachineClock) -> bool:
    deadline = clock.seconds + FIND_SECONDS
    while not await question():
        if clock.seconds > deadline:
            return False
        await asyncio.sleep(0.2)
    return True
