"""Status of a cache, summarized across nodes, namespaces and pods.

This module performs no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from accelkit.cachecontroller.cluster_view import ClaimPod, ClusterView
from accelkit.cachecontroller.deciding.judgement import Decision
from accelkit.cachecontroller.deciding.node_views import (
    CacheNodeReport,
    count,
    find_variables,
    summarize_compatible,
    summarize_nodes,
    view_nodes,
)
from accelkit.gkm.conditions import Condition, ConditionType, Reason, find_condition, is_failure, state
from accelkit.gkm.objects import Cache, CacheCounts, CacheStatus, Delivery, NodeCacheStatus, PvcStatus
from accelkit.texts import list_some

# Access modes that allow pods on several nodes to share a volume.
_BY_MANY: Final = frozenset({"ReadOnlyMany", "ReadWriteMany"})
_MAX_LISTED: Final = 5
_NOT_MEASURED: Final = "cache hits are measured only with delivery node"


def choose_delivery(cache: Cache) -> Delivery:
    """Return the delivery of a cache. If the spec contains Auto, choose the delivery."""
    spec = cache.spec
    if spec.delivery is not Delivery.AUTO:
        return spec.delivery
    shared = bool(_BY_MANY & set(spec.access_modes)) and bool(spec.storage_class_name)
    return Delivery.NAMESPACE if shared else Delivery.NODE


def judge_ready(
    cache: Cache,
    delivery: Delivery,
    views: Sequence[CacheNodeReport],
    states: Mapping[str, PvcStatus],
    existing: Collection[str],
) -> tuple[Condition, Condition]:
    """Return the conditions Ready and Degraded of a verified cache.

    Args:
        cache: cache with its namespaces.
        delivery: delivery of the cache.
        views: node reports.
        states: states by namespace.
        existing: names of the existing namespaces.
    """
    if not cache.namespaces:
        text = "workloadNamespaces is empty; add the namespaces whose pods use the cache"
        return _refuse(Reason.NO_NAMESPACES, text)
    here = {name: _find_ready(states.get(name)) for name in cache.namespaces if name in existing}
    if not here:
        return _refuse(
            Reason.NAMESPACE_MISSING,
            f"namespaces that do not exist: {list_some(cache.namespaces)}; create them, or correct workloadNamespaces",
        )
    failures = [f"{name}: {each.message or each.reason}" for name, each in here.items() if each and is_failure(each)]
    reasons = [each.reason for each in here.values() if each and is_failure(each)]
    by_node = delivery is Delivery.NODE
    for view in views if by_node else ():
        if (failure := view.failure) is not None:
            failures.append(f"node {view.node}: {failure.message or failure.reason}")
            reasons.append(Reason.FAILED_ON_NODES)
    ready_nodes = [view.node for view in views if view.ready]
    ready_here = [name for name, each in here.items() if each is not None and each.status == "True"]
    some = bool(ready_here) and (bool(ready_nodes) or not by_node)
    if failures:
        listed = "; ".join(failures[:_MAX_LISTED]) + (
            f"; and {len(failures) - _MAX_LISTED} more" if len(failures) > _MAX_LISTED else ""
        )
        return (
            state(ConditionType.READY, reasons[0], listed, holds=False),
            state(ConditionType.DEGRADED, reasons[0], listed, holds=True),
        )
    healthy = state(ConditionType.DEGRADED, Reason.READY if some else Reason.PENDING, "no failures", holds=False)
    if len(ready_here) < len(here):
        waiting = next(each for each in here.values() if each is None or each.status != "True")
        text = waiting.message if waiting is not None else "the state of the claims is not known yet"
        return state(ConditionType.READY, Reason.PENDING, text, holds=False), healthy
    if not some:
        return state(ConditionType.READY, *_explain_waiting(views), holds=False), healthy
    where = f"on {len(ready_nodes)} of {len(views)} nodes" if by_node else f"in {len(ready_here)} namespaces"
    return state(ConditionType.READY, Reason.READY, f"pods can use the cache {where}", holds=True), healthy


def assemble_status(
    cache: Cache,
    decision: Decision,
    states: Mapping[str, PvcStatus],
    cluster: ClusterView,
    nodes: Mapping[str, str],
    *,
    users: Mapping[str, Collection[ClaimPod]] = MappingProxyType({}),
) -> CacheStatus:
    """Return the complete status of a cache. Its conditions do not have timestamps yet.

    Args:
        cache: cache whose status contains the decisions of this pass, including `delivery`.
        decision: decision of this pass.
        states: states from the delivery mode, keyed by namespace.
        cluster: source of node reports, namespaces and pods.
        nodes: existing nodes with their hostnames.
        users: pods from the delivery mode, keyed by digest. They are used if node reports do not contain the pods.
    """
    status, delivery = cache.status, Delivery(cache.status.delivery)
    resolved, verified = decision.conditions
    views = view_nodes(cache, status.resolved_digest, cluster.list_reports(cache), nodes)
    by_node = delivery is Delivery.NODE
    counts = count_pods(status.resolved_digest, users)
    if decision.serves:
        existing = [each for each in cache.namespaces if each in cluster.namespaces]
        ready, degraded = judge_ready(cache, delivery, views, states, existing)
        if resolved.status == "False":
            degraded = state(ConditionType.DEGRADED, resolved.reason, resolved.message, holds=True)
        of_nodes = summarize_nodes(views) if by_node else summarize_elsewhere(views, states, counts)
        missing = {name: describe_missing(name) for name in cache.namespaces if name not in cluster.namespaces}
        conditions = [ready, resolved, verified, *of_nodes, degraded]
        found = {**states, **missing}
    elif status.resolved_digest:
        # Without a verdict, only these two conditions change.
        found, conditions = (
            status.pvc_status,
            [next((new for new in decision.conditions if new.type == each.type), each) for each in status.conditions],
        )
    else:
        ready = state(ConditionType.READY, verified.reason, verified.message, holds=False)
        of_nodes = summarize_nodes(views) if by_node else summarize_elsewhere(views, {}, counts)
        found = {}
        conditions = [ready, resolved, verified, *(each for each in of_nodes if each.type == ConditionType.OUTDATED)]
    claims = {each.pvc_name for each in found.values() if each.pvc_name}
    leaving = sum(
        pod.leaving and bool(claims & pod.claims) for each in cache.namespaces for pod in cluster.list_pods(each)
    )
    owners = {each.pvc_owner for each in found.values()} - {"Unknown"}
    return msgspec.structs.replace(
        status,
        pvc_owner=owners.pop() if len(owners) == 1 else "Unknown",
        pvc_status=dict(found),
        conditions=conditions,
        recorded_environment=status.recorded_environment or find_variables(views),
        counts=count(views, leaving) if by_node else counts,
    )


def summarize_elsewhere(
    views: Sequence[CacheNodeReport], states: Mapping[str, PvcStatus], counts: CacheCounts
) -> list[Condition]:
    """Return the conditions Compatible, Extracted, Outdated and Effective for a delivery that stores no files on nodes.

    Args:
        views: node reports about the compatibility of cards.
        states: states by namespace.
        counts: pod counts.
    """
    found = {name: _find_ready(each) for name, each in states.items()}
    ready_names = [name for name, each in found.items() if each is not None and each.status == "True"]
    waiting = next((each for each in found.values() if each is not None and each.status != "True"), None)
    if ready_names:
        extracted = state(
            ConditionType.EXTRACTED, Reason.EXTRACTED, f"pods can use the cache in {list_some(ready_names)}", holds=True
        )
    elif waiting is not None:
        extracted = state(ConditionType.EXTRACTED, waiting.reason, waiting.message, holds=False)
    else:
        extracted = state(ConditionType.EXTRACTED, Reason.PENDING, "the files are not available yet", holds=False)
    pods = counts.pod_outdated_cnt
    text = f"pods with a previous digest: {pods}" if pods else "no pod uses a previous digest"
    return [
        summarize_compatible([view for view in views if view.current is not None]),
        extracted,
        state(ConditionType.OUTDATED, Reason.OUTDATED if pods else Reason.CURRENT, text, holds=bool(pods)),
        state(ConditionType.EFFECTIVE, Reason.NOT_MEASURED, _NOT_MEASURED, holds=None),
    ]


def count_pods(digest: str, users: Mapping[str, Collection[ClaimPod]]) -> CacheCounts:
    """Return the counts of pods and their nodes for a delivery with pods that node reports do not contain.

    Args:
        digest: digest that new pods use.
        users: pods, keyed by the digest that they use.
    """
    pods = [pod for found in users.values() for pod in found]
    nodes = {pod.node for pod in pods if pod.node}
    running = {each: sum(bool(pod.node) and not pod.leaving for pod in found) for each, found in users.items()}
    return CacheCounts(
        node_cnt=len(nodes),
        node_in_use_cnt=len(nodes),
        pod_running_cnt=running.get(digest, 0),
        pod_deleting_cnt=sum(pod.leaving for pod in pods),
        pod_outdated_cnt=sum(running.values()) - running.get(digest, 0),
    )


def describe_missing(namespace: str) -> PvcStatus:
    """Return the state of a namespace that does not exist."""
    text = f"namespace {namespace} does not exist; create it, or correct workloadNamespaces"
    return PvcStatus(conditions=[state(ConditionType.READY, Reason.NAMESPACE_MISSING, text, holds=False)])


def _explain_waiting(views: Sequence[CacheNodeReport]) -> tuple[Reason, str]:
    if not views:
        return Reason.PENDING, "no node with cards has reported the cache yet"
    compatible = summarize_compatible([view for view in views if view.current is not None])
    if compatible.status == "False":
        return Reason(compatible.reason), compatible.message
    for view in views:
        ready = _find_ready(view.current)
        if ready is not None and ready.reason == Reason.RETRYING:
            return Reason.RETRYING, f"node {view.node}: {ready.message}"
    return Reason.EXTRACTING, f"nodes that are extracting the cache: {len(views)}; ready: 0"


def _find_ready(status: PvcStatus | NodeCacheStatus | None) -> Condition | None:
    return find_condition(status.conditions, ConditionType.READY) if status is not None else None


def _refuse(reason: Reason, message: str) -> tuple[Condition, Condition]:
    return (
        state(ConditionType.READY, reason, message, holds=False),
        state(ConditionType.DEGRADED, reason, "the cache is not ready in any namespace", holds=False),
    )
