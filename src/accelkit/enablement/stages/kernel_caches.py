"""The stage `kernel-cache-check`: the cache agent runs on the node, and the administrator's caches are ready.

A user who may edit a namespace can specify an unusable image. Therefore, namespaced caches are counted but not
evaluated.
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
    """Evaluate whether kernel caches are available on the node."""
    if facts.caches is None:
        return skipped(facts, StageReason.NOT_INSTALLED, "kernel caches are not installed in this cluster")
    if isinstance(facts.caches, Unread):
        return unknown(facts, StageReason.CACHES_UNREAD, f"reports of caches cannot be listed: {facts.caches.why}")
    pods = facts.find_pods(CACHE_COMPONENT)
    if isinstance(pods, Unread):
        return unknown(facts, StageReason.PODS_UNREAD, f"the pods of accelkit cannot be listed: {pods.why}")
    agent = find_program_pod(pods)
    # If CustomResourceDefinitions exist without agents, they belong to another system or to an earlier installation.
    if agent.state is PodState.MISSING and not facts.caches:
        return skipped(facts, StageReason.NOT_INSTALLED, "this node has no cache agent")
    if agent.state is not PodState.READY:
        return failed(facts, StageReason.CACHE_AGENT_NOT_READY, f"the cache agent: {agent.description}")
    return _judge_reports(facts, facts.caches, agent.description)


def _judge_reports(facts: NodeFacts, caches: Sequence[CacheNode], agent: str) -> StageResult:
    reports = [each for each in caches if not each.metadata.namespace]
    if faults := list(_list_faults(reports)):
        return failed(facts, StageReason.CACHE_NOT_READY, list_some(faults, most=3))
    others = sum(len(each.status.caches) for each in caches if each.metadata.namespace)
    own = sum(len(each.status.caches) for each in reports)
    return passed(f"{agent}; none of {own} cluster caches failed; {others} namespaced caches are not judged")


def _list_faults(reports: Sequence[CacheNode]) -> Iterator[str]:
    for report in reports:
        for name, digests in sorted(report.status.caches.items()):
            for status in digests.values():
                if fault := _find_fault(status.conditions):
                    yield f"cache {name}: {fault.reason}{f': {fault.message}' if fault.message else ''}"


def _find_fault(conditions: Sequence[Condition]) -> Condition | None:
    """Return the permanent failure of a digest. Digests in progress and digests for other cards are not failures."""
    for each in conditions:
        if each.type == ConditionType.DEGRADED and each.status == "True":
            return each
        if each.type == ConditionType.READY and each.status == "False" and each.reason not in list(NO_FAILURE):
            return each
    return None
