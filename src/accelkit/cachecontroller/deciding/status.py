"""What a cache's status says of its nodes, namespaces and pods; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from accelkit.cachecontroller.deciding.judgement import Decision
from accelkit.cachecontroller.delivery import Shown
from accelkit.gkm.conditions import Condition, ConditionType, Reason, find_condition, holds, state
from accelkit.gkm.objects import Cache, CacheCounts, CacheNode, CacheStatus, Delivery, NodeCacheStatus, PvcStatus

_WRITABLE_BY_MANY: Final = frozenset({"ReadOnlyMany", "ReadWriteMany"})
# What is under way, or nobody's failure.
_CALM: Final = frozenset(
    {
        Reason.PENDING.value,
        Reason.EXTRACTING.value,
        Reason.EXTRACTED.value,
        Reason.INCOMPATIBLE.value,
        Reason.NO_CARDS.value,
        Reason.NAMESPACE_MISSING.value,
        Reason.DELETING.value,
    }
)
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class NodeView:
    """What one node says of a cache.

    Attributes:
        node: its name.
        current: of the digest that pods get; None where the node says nothing of it.
        former: of other digests.
    """

    node: str
    current: NodeCacheStatus | None
    former: tuple[NodeCacheStatus, ...] = ()

    @property
    def ready(self) -> bool:
        """Whether its pods may use the cache."""
        return self.current is not None and holds(self.current.conditions, ConditionType.READY)

    @property
    def failure(self) -> Condition | None:
        """Why not, where that is a failure and not merely under way."""
        if self.current is None or self.ready:
            return None
        found = (
            find_condition(self.current.conditions, type_) for type_ in (ConditionType.EXTRACTED, ConditionType.READY)
        )
        return next((each for each in found if each is not None and _is_failure(each)), None)


def choose_delivery(cache: Cache) -> Delivery:
    """Return how a cache comes to pods, where users leave it open."""
    spec = cache.spec
    if spec.delivery is not Delivery.AUTO:
        return spec.delivery
    shared = bool(_WRITABLE_BY_MANY & set(spec.access_modes)) and bool(spec.storage_class_name)
    return Delivery.NAMESPACE if shared else Delivery.NODE


def view_nodes(cache: Cache, digest: str, reports: Iterable[CacheNode], nodes: Collection[str]) -> list[NodeView]:
    """Return what the nodes that exist say of a cache, by their names' order."""
    views = []
    for report in reports:
        name = report.metadata.name
        entries = report.status.caches.get(cache.metadata.name)
        if name in nodes and entries:
            former = tuple(entry for key, entry in entries.items() if key != digest)
            views.append(NodeView(name, entries.get(digest), former))
    return sorted(views, key=lambda view: view.node)


def count(views: Sequence[NodeView], leaving: int = 0) -> CacheCounts:
    """Count nodes and pods from the nodes' own entries of this cache.

    Args:
        views: of this cache alone.
        leaving: pods that mount it and are being deleted.
    """
    used = [view for view in views if view.current is not None and view.current.pods]
    unused = [view for view in views if view.ready and view not in used]
    return CacheCounts(
        node_cnt=len(views),
        node_in_use_cnt=len(used),
        node_not_in_use_cnt=len(unused),
        node_error_cnt=sum(view.failure is not None for view in views),
        pod_running_cnt=sum(len(view.current.pods) for view in views if view.current is not None),
        pod_deleting_cnt=leaving,
        pod_outdated_cnt=sum(len(entry.pods) for view in views for entry in view.former),
    )


def summarize_nodes(views: Sequence[NodeView]) -> list[Condition]:
    """Return Compatible, Extracted, Outdated and Effective, as the nodes have them together."""
    current = [view for view in views if view.current is not None]
    outdated = [view.node for view in views if any(entry.pods for entry in view.former)]
    pods = sum(len(entry.pods) for view in views for entry in view.former)
    text = f"{pods} pods use a former digest, on {_list(outdated)}" if pods else "no pod uses a former digest"
    return [
        _summarize_compatible(current),
        _summarize_extracted(current),
        state(ConditionType.OUTDATED, Reason.OUTDATED if pods else Reason.CURRENT, text, holds=bool(pods)),
        _summarize_effective(current),
    ]


def judge_ready(
    cache: Cache,
    delivery: Delivery,
    views: Sequence[NodeView],
    states: Mapping[str, PvcStatus],
    existing: Collection[str],
) -> tuple[Condition, Condition]:
    """Return Ready and Degraded of a verified cache.

    Args:
        cache: to tell its namespaces.
        delivery: how it comes to pods.
        views: what the nodes say.
        states: by namespace.
        existing: the namespaces that exist.
    """
    if not cache.namespaces:
        text = "no workloadNamespaces: name the namespaces whose pods are to use it"
        return _refuse(Reason.NO_NAMESPACES, text)
    here = {name: _find_ready(states.get(name)) for name in cache.namespaces if name in existing}
    if not here:
        return _refuse(
            Reason.NAMESPACE_MISSING, f"{_list(cache.namespaces)}: no such namespace; it goes on once there is"
        )
    failures = [f"{name}: {each.message or each.reason}" for name, each in here.items() if each and _is_failure(each)]
    reasons = [each.reason for each in here.values() if each and _is_failure(each)]
    by_node = delivery is Delivery.NODE
    for view in views if by_node else ():
        if (failure := view.failure) is not None:
            failures.append(f"node {view.node}: {failure.message or failure.reason}")
            reasons.append(Reason.FAILED_ON_NODES)
    ready_nodes = [view.node for view in views if view.ready]
    ready_here = [name for name, each in here.items() if each is not None and each.status == "True"]
    some = bool(ready_here) and (bool(ready_nodes) or not by_node)
    if failures:
        shown = "; ".join(failures[:_SHOWN]) + (
            f"; and {len(failures) - _SHOWN} more" if len(failures) > _SHOWN else ""
        )
        return (
            state(ConditionType.READY, reasons[0], shown, holds=False),
            state(ConditionType.DEGRADED, reasons[0], shown, holds=True),
        )
    healthy = state(ConditionType.DEGRADED, Reason.READY if some else Reason.PENDING, "nothing failed", holds=False)
    if len(ready_here) < len(here):
        waiting = next(each for each in here.values() if each is None or each.status != "True")
        text = waiting.message if waiting is not None else "nothing is known of its claims yet"
        return state(ConditionType.READY, Reason.PENDING, text, holds=False), healthy
    if not some:
        return state(ConditionType.READY, *_explain_waiting(views), holds=False), healthy
    where = f"{len(ready_nodes)} of {len(views)} nodes" if by_node else f"{len(ready_here)} namespaces"
    return state(ConditionType.READY, Reason.READY, f"pods get it in {where}", holds=True), healthy


def assemble_status(
    cache: Cache,
    decision: Decision,
    delivery: Delivery,
    states: Mapping[str, PvcStatus],
    shown: Shown,
    nodes: Collection[str],
) -> CacheStatus:
    """Return the whole status, with conditions without times.

    Args:
        cache: with what was decided in its status.
        decision: what pods get.
        delivery: how.
        states: by namespace, as the way of delivery has them.
        shown: reports, namespaces and pods.
        nodes: those that exist.
    """
    status = cache.status
    resolved, verified = decision.conditions
    views = view_nodes(cache, status.resolved_digest, shown.list_reports(cache), nodes)
    by_node = delivery is Delivery.NODE
    if decision.serves:
        existing = [each for each in cache.namespaces if each in shown.namespaces]
        ready, degraded = judge_ready(cache, delivery, views, states, existing)
        if resolved.status == "False":
            degraded = state(ConditionType.DEGRADED, resolved.reason, resolved.message, holds=True)
        of_nodes = summarize_nodes(views) if by_node else []
        missing = {name: say_missing(name) for name in cache.namespaces if name not in shown.namespaces}
        conditions = [ready, resolved, verified, *of_nodes, degraded]
        found = {**states, **missing}
    elif status.resolved_digest:
        # Nothing was learnt: what was known stays, but for the two that say so.
        found, conditions = (
            status.pvc_status,
            [next((new for new in decision.conditions if new.type == each.type), each) for each in status.conditions],
        )
    else:
        ready = state(ConditionType.READY, verified.reason, verified.message, holds=False)
        outdated = [each for each in summarize_nodes(views) if each.type == ConditionType.OUTDATED] if by_node else []
        found, conditions = {}, [ready, resolved, verified, *outdated]
    claims = {each.pvc_name for each in found.values() if each.pvc_name}
    leaving = sum(
        pod.leaving and bool(claims & pod.claims) for each in cache.namespaces for pod in shown.list_pods(each)
    )
    owners = {each.pvc_owner for each in found.values()} - {"Unknown"}
    return msgspec.structs.replace(
        status,
        pvc_owner=owners.pop() if len(owners) == 1 else "Unknown",
        pvc_status=dict(found),
        conditions=conditions,
        counts=count(views, leaving) if by_node else count_pods(cache, states, shown),
    )


def count_pods(cache: Cache, states: Mapping[str, PvcStatus], shown: Shown) -> CacheCounts:
    """Count pods and their nodes where no node reports, from the pods that mount the claims."""
    pods = [
        pod
        for namespace in cache.namespaces
        for pod in shown.list_pods(namespace)
        if namespace in states and states[namespace].pvc_name in pod.claims
    ]
    nodes = {pod.node for pod in pods if pod.node}
    running = sum(bool(pod.node) and not pod.leaving for pod in pods)
    return CacheCounts(
        node_cnt=len(nodes),
        node_in_use_cnt=len(nodes),
        pod_running_cnt=running,
        pod_deleting_cnt=sum(pod.leaving for pod in pods),
    )


def say_missing(namespace: str) -> PvcStatus:
    """Return the state of a namespace that does not exist."""
    text = f"there is no namespace {namespace}; it goes on once there is"
    return PvcStatus(conditions=[state(ConditionType.READY, Reason.NAMESPACE_MISSING, text, holds=False)])


def _explain_waiting(views: Sequence[NodeView]) -> tuple[Reason, str]:
    if not views:
        return Reason.PENDING, "no node with cards has taken it up yet"
    compatible = _summarize_compatible([view for view in views if view.current is not None])
    if compatible.status == "False":
        return Reason(compatible.reason), compatible.message
    return Reason.EXTRACTING, f"{len(views)} nodes prepare it, and none is ready yet"


def _summarize_compatible(views: Sequence[NodeView]) -> Condition:
    found = {view.node: _find(view, ConditionType.COMPATIBLE) for view in views}
    yes = [node for node, each in found.items() if each is not None and each.status == "True"]
    no = {node: each for node, each in found.items() if each is not None and each.status == "False"}
    type_ = ConditionType.COMPATIBLE
    if yes and no:
        return state(type_, Reason.PARTLY_COMPATIBLE, f"{len(yes)} nodes can load it, {_list(no)} cannot", holds=True)
    if yes:
        return state(type_, Reason.COMPATIBLE, f"{len(yes)} nodes can load it", holds=True)
    if no:
        node, first = next(iter(no.items()))
        reason = Reason.NO_CARDS if all(each.reason == Reason.NO_CARDS for each in no.values()) else Reason.INCOMPATIBLE
        return state(type_, reason, f"{len(no)} nodes cannot load it; {node}: {first.message}", holds=False)
    return state(type_, Reason.PENDING, "no node has judged it yet", holds=None)


def _summarize_extracted(views: Sequence[NodeView]) -> Condition:
    nodes = [
        view.node for view in views if holds(view.current.conditions if view.current else (), ConditionType.EXTRACTED)
    ]
    if nodes:
        return state(ConditionType.EXTRACTED, Reason.EXTRACTED, f"{len(nodes)} nodes have its files", holds=True)
    failed = next((view for view in views if view.failure is not None), None)
    if failed is not None and failed.failure is not None:
        text = f"node {failed.node}: {failed.failure.message}"
        return state(ConditionType.EXTRACTED, failed.failure.reason, text, holds=False)
    return state(ConditionType.EXTRACTED, Reason.PENDING, "no node has its files yet", holds=False)


def _summarize_effective(views: Sequence[NodeView]) -> Condition:
    found = [(view.node, _find(view, ConditionType.EFFECTIVE)) for view in views]
    missing = [(node, each) for node, each in found if each is not None and each.status == "False"]
    if missing:
        node, first = missing[0]
        return state(ConditionType.EFFECTIVE, first.reason, f"node {node}: {first.message}", holds=False)
    hits = [node for node, each in found if each is not None and each.status == "True"]
    if hits:
        return state(ConditionType.EFFECTIVE, Reason.HITS, f"workloads hit it on {_list(hits)}", holds=True)
    return state(ConditionType.EFFECTIVE, Reason.NOT_MEASURED, "nobody has looked yet", holds=None)


def _find(view: NodeView, type_: ConditionType) -> Condition | None:
    return find_condition(view.current.conditions, type_) if view.current is not None else None


def _find_ready(status: PvcStatus | None) -> Condition | None:
    return find_condition(status.conditions, ConditionType.READY) if status is not None else None


def _is_failure(condition: Condition) -> bool:
    return condition.status == "False" and condition.reason not in _CALM


def _refuse(reason: Reason, message: str) -> tuple[Condition, Condition]:
    return (
        state(ConditionType.READY, reason, message, holds=False),
        state(ConditionType.DEGRADED, reason, "it is ready nowhere", holds=False),
    )


def _list(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")
