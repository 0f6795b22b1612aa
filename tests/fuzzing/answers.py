"""What must hold of the answer of filter, and of a simulation: that it says the same, and in the same words."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from fuzzing.rounds import FindingError, check_sentence

from accelkit.extender.wire import FilterResult
from accelkit.inspection.simulation import MAX_QUESTION_BYTES, Simulation, SimulationQuestion
from accelkit.model.pending_pod import PendingPod


def check_filter(names: list[str], result: FilterResult, pod: dict[str, Any]) -> None:
    """See that each node is judged once, and every sentence is one."""
    fitting, failed = result.NodeNames or [], result.FailedNodes or {}
    if sorted([*fitting, *failed]) != sorted(names):
        raise FindingError("filter does not judge each node once", pod)
    for text in set(failed.values()):
        check_sentence("a node's sentence", text, pod)


def request_simulation(pod: dict[str, Any], names: list[str]) -> bytes:
    """Return the body of a question, as `accelkit explain` sends it; empty where it would be too long."""
    question = SimulationQuestion(msgspec.json.decode(json.dumps(pod), type=PendingPod), names)
    body = msgspec.json.encode(question)
    return body if len(body) <= MAX_QUESTION_BYTES else b""


def check_simulation(answer: bytes, result: FilterResult, pod: dict[str, Any]) -> None:
    """Compare a simulation with filter's answer."""
    nodes = msgspec.json.decode(answer, type=Simulation).nodes
    if [node.name for node in nodes if node.fits] != (result.NodeNames or []):
        raise FindingError("a simulation has other nodes than filter", pod)
    if {node.name: node.sentence for node in nodes if not node.fits} != (result.FailedNodes or {}):
        raise FindingError("a simulation has other words than filter", pod)
    for node in nodes:
        for change in node.changes:
            check_sentence("a change", change.sentence, pod)
        for card in node.cards:
            for refusal in card.refusals:
                check_sentence("a card's sentence", refusal.sentence, pod)
