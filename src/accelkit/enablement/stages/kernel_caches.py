"""The stage `kernel-cache-check`: the cache agent runs on the node, and the administrator's caches are ready there.

Who may edit a namespace may name an image that nobody can use. So caches of namespaces are counted and nothing more:
one of them can make no node fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from accelkit.enablement.facts.node_facts import NodeFacts
from accelkit.enablement.facts.program_pod import PodState, find_program_pod
from accelkit.enablement.facts.unread import Unread
from accelkit.enablement.reasons import StageReason
from accelkit.enablement.stages.results import failed, passed, skipped, unknown
from accelkit.gkm.conditions import NO_FAILURE, Condition, ConditionType
from accelkit.gkm.objects import CacheNode
from accelkit.model.stage import StageResult
from accelkit.texts import list_some

CACHE_COMPONENT: Final = "kernel-caches"


def judge_kernel_caches(facts: NodeFacts) -> StageResult:
    """Judge whether kernel caches come to the node."""
    if facts.caches is None:
        return skipped(facts, StageReason.NOT_INSTALLED, "kernel caches are not installed in this cluster")
    if isinstance(facts.caches, Unread):
        return unknown(facts, StageReason.CACHES_UNREAD, f"reports of caches cannot be listed: {facts.caches.why}")
    pods = facts.find_pods(CACHE_COMPONENT)
    if isinstance(pods, Unread):
        return unknown(facts, StageReason.PODS_UNREAD, f"the pods of accelkit cannot be listed: {pods.why}")
    agent = find_program_pod(pods)
    # The definitions alone are another system's, or are left from former days.
    if agent.state is PodState.MISSING and not facts.caches:
        return skipped(facts, StageReason.NOT_INSTALLED, "no agent of kernel caches is on this node")
    if agent.state is not PodState.READY:
        return failed(facts, StageReason.CACHE_AGENT_NOT_READY, f"the cache agent: {agent.seen}")
    return _judge_reports(facts, facts.caches, agent.seen)


def _judge_reports(facts: NodeFacts, caches: Sequence[CacheNode], seen: str) -> StageResult:
    reports = [each for each in caches if not each.metadata.namespace]
    if faults := list(_list_faults(reports)):
        return failed(facts, StageReason.CACHE_NOT_READY, list_some(faults, most=3))
    others = sum(len(each.status.caches) for each in caches if each.metadata.namespace)
    own = sum(len(each.status.caches) for each in reports)
    return passed(f"{seen}; {own} caches of the cluster failed nowhere here, {others} of namespaces are not judged")


def _list_faults(reports: Sequence[CacheNode]) -> Iterator[str]:
    for report in reports:
        for name, digests in sorted(report.status.caches.items()):
            for status in digests.values():
                if fault := _find_fault(status.conditions):
                    yield f"cache {name}: {fault.reason}{f': {fault.message}' if fault.message else ''}"


def _find_fault(conditions: Sequence[Condition]) -> Condition | None:
    """Return why one digest is not ready for good; what is on its way, or is for other cards, is no fault."""
    for each in conditions:
        if each.type == ConditionType.DEGRADED and each.status == "True":
            return each
        if each.type == ConditionType.READY and each.status == "False" and each.reason not in list(NO_FAILURE):
            return each
    return None
