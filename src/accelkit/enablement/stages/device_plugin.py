"""The stage `device-plugin`: the agent runs on the node, and the kubelet offers the advertised resources.

The stage uses allocatable resources, because the capacity includes unhealthy devices, and remains unchanged for minutes
after a device plugin has stopped.
"""

from __future__ import annotations

from typing import Final

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.facts.program_pod import PodState, find_program_pod
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.results import failed, passed, unknown
from accelkit.model.managed_resources import MANAGED_RESOURCES_NAME
from accelkit.model.stage import StageResult
from accelkit.model.units import format_unit
from accelkit.vendors.advertised import read_advertised
from accelkit.vendors.dialects import load_own_dialect

AGENT_COMPONENT: Final = "node-agent"

_REASONS: Final = {
    PodState.MISSING: StageReason.AGENT_MISSING,
    PodState.CRASHES: StageReason.AGENT_CRASHES,
    PodState.WAITS: StageReason.AGENT_NOT_READY,
}


def judge_device_plugin(facts: NodeFacts) -> StageResult:
    """Evaluate whether pods can get the node's cards."""
    pods = facts.find_pods(AGENT_COMPONENT)
    if isinstance(pods, Unread):
        return unknown(facts, StageReason.PODS_UNREAD, f"the pods of accelkit cannot be listed: {pods.why}")
    agent = find_program_pod(pods)
    if agent.state is not PodState.READY:
        return failed(facts, _REASONS[agent.state], f"the node agent: {agent.description}")
    if problem := facts.cards.problem:
        return failed(facts, StageReason.UNIT_REFUSED, problem)
    offered, absent = _split_offers(facts)
    if absent:
        known = (facts.node.status.capacity or {}).keys() & set(absent)
        reason = StageReason.NOTHING_ALLOCATABLE if known else StageReason.NOT_ADVERTISED
        return failed(facts, reason, _describe_absent(facts, absent))
    next_unit = facts.cards.next_unit_bytes
    later = f"; after the current pods end, it will use the unit {format_unit(next_unit)}" if next_unit else ""
    return passed(f"{agent.description}; allocatable: {', '.join(offered)}{later}")


def _split_offers(facts: NodeFacts) -> tuple[list[str], list[str]]:
    """Return the resources that the kubelet offers, as `NAME: AMOUNT`, and the missing resources."""
    allocatable = facts.node.status.allocatable or {}
    native = load_own_dialect("native").resources
    advertised = read_advertised(facts.node)
    names = sorted({native.memory, native.cards, *advertised})
    offered = [f"{name}: {allocatable[name]}" for name in names if allocatable.get(name, "0") != "0"]
    if advertised:
        # An agent serves one dialect. Dialects that the agent served earlier remain listed while the node has resources
        # of these dialects.
        return offered, [] if offered else sorted(advertised)
    expected = [native.cards]
    if any(card.memory_bytes is not None for card in facts.cards.cards):
        expected.append(native.memory)
    return offered, [name for name in sorted(expected) if allocatable.get(name, "0") == "0"]


def _describe_absent(facts: NodeFacts, absent: list[str]) -> str:
    capacity, withheld = facts.node.status.capacity or {}, facts.cards.withheld or ()
    problems = dict.fromkeys(absent, "is not registered")
    problems |= {name: f"has 0 allocatable of a capacity of {capacity[name]}" for name in absent if name in capacity}
    because = f"is withheld, because the ConfigMap {MANAGED_RESOURCES_NAME} does not list it; run site.yml"
    problems |= {name: because for name in absent if name in withheld}
    return "; ".join(f"{name} {problem}" for name, problem in problems.items())
