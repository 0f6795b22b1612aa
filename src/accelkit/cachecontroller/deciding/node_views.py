"""Node reports about a cache, and summaries of these reports.

This module performs no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from accelkit.gkm.conditions import Condition, ConditionType, Reason, find_condition, holds, is_failure, state
from accelkit.gkm.objects import Cache, CacheCounts, CacheNode, NodeCacheStatus
from accelkit.kernelcache.formats.recorded import bound_texts
from accelkit.texts import list_some


@dataclass(frozen=True, slots=True)
class CacheNodeReport:
    """Report from one node about a cache.

    Attributes:
        node: name of the node.
        current: entry for the digest that new pods use; None if the report does not contain this entry.
        former: entries for previous digests.
        host: value of the node's label kubernetes.io/hostname.
    """

    node: str
    current: NodeCacheStatus | None
    former: tuple[NodeCacheStatus, ...] = ()
    host: str = ""

    @property
    def ready(self) -> bool:
        """Whether pods on the node may use the cache."""
        return self.current is not None and holds(self.current.conditions, ConditionType.READY)

    @property
    def failure(self) -> Condition | None:
        """Condition with the reason why pods may not use the cache; None if the node is still preparing the cache."""
        if self.current is None or self.ready:
            return None
        found = (
            find_condition(self.current.conditions, type_) for type_ in (ConditionType.EXTRACTED, ConditionType.READY)
        )
        return next((each for each in found if each is not None and is_failure(each)), None)


def view_nodes(
    cache: Cache, digest: str, reports: Iterable[CacheNode], nodes: Mapping[str, str]
) -> list[CacheNodeReport]:
    """Return the reports of existing nodes about a cache, ordered by node.

    Args:
        cache: cache that the reports describe.
        digest: digest that new pods use.
        reports: node reports, possibly from deleted nodes.
        nodes: names of existing nodes, with the values of the label kubernetes.io/hostname.
    """
    views = []
    for report in reports:
        name = report.metadata.name
        entries = report.status.caches.get(cache.metadata.name)
        if name in nodes and entries:
            former = tuple(entry for key, entry in entries.items() if key != digest)
            views.append(CacheNodeReport(name, entries.get(digest), former, nodes[name]))
    return sorted(views, key=lambda view: view.node)


def list_hosts(views: Iterable[CacheNodeReport], *, by_node: bool) -> list[str]:
    """Return the hostname labels of the nodes that are preferred for pods of a cache.

    Args:
        views: reports about the cache.
        by_node: whether nodes store the files. If not, the nodes with compatible cards are returned.
    """
    kind = ConditionType.READY if by_node else ConditionType.COMPATIBLE
    return [view.host for view in views if view.current is not None and holds(view.current.conditions, kind)]


def count(views: Sequence[CacheNodeReport], leaving: int = 0) -> CacheCounts:
    """Return the node and pod counts from the node reports about a cache.

    Args:
        views: reports about this cache only.
        leaving: number of pods that mount the cache and are being deleted.
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


def find_variables(views: Iterable[CacheNodeReport]) -> dict[str, str]:
    """Return the environment variables at the time of capture, from the first node that reports these variables."""
    recorded = (bound_texts(view.current.recorded_environment) for view in views if view.current is not None)
    return next(filter(None, recorded), {})


def summarize_nodes(views: Sequence[CacheNodeReport]) -> list[Condition]:
    """Return the conditions Compatible, Extracted, Outdated and Effective, summarized across all nodes."""
    current = [view for view in views if view.current is not None]
    outdated = [view.node for view in views if any(entry.pods for entry in view.former)]
    pods = sum(len(entry.pods) for view in views for entry in view.former)
    text = f"pods with a previous digest: {pods}, on {list_some(outdated)}" if pods else "no pod uses a previous digest"
    return [
        summarize_compatible(current),
        _summarize_extracted(current),
        state(ConditionType.OUTDATED, Reason.OUTDATED if pods else Reason.CURRENT, text, holds=bool(pods)),
        _summarize_effective(current),
    ]


def summarize_compatible(views: Sequence[CacheNodeReport]) -> Condition:
    """Return the condition Compatible, summarized across all nodes."""
    found = {view.node: _find(view, ConditionType.COMPATIBLE) for view in views}
    yes = [node for node, each in found.items() if each is not None and each.status == "True"]
    no = {node: each for node, each in found.items() if each is not None and each.status == "False"}
    type_ = ConditionType.COMPATIBLE
    if yes and no:
        return state(
            type_, Reason.PARTLY_COMPATIBLE, f"compatible nodes: {len(yes)}; incompatible: {list_some(no)}", holds=True
        )
    if yes:
        return state(type_, Reason.COMPATIBLE, f"compatible nodes: {len(yes)}", holds=True)
    if no:
        node, first = next(iter(no.items()))
        reason = Reason.NO_CARDS if all(each.reason == Reason.NO_CARDS for each in no.values()) else Reason.INCOMPATIBLE
        return state(type_, reason, f"incompatible nodes: {len(no)}; {node}: {first.message}", holds=False)
    # A node with an unknown verdict reports the missing fact; a node without a verdict reports Pending.
    undecided = {node: each for node, each in found.items() if each is not None and each.reason != Reason.PENDING}
    if undecided:
        node, first = next(iter(undecided.items()))
        text = f"nodes with unknown compatibility: {len(undecided)}; {node}: {first.message}"
        return state(type_, first.reason, text, holds=None)
    return state(type_, Reason.PENDING, "no node has checked the compatibility yet", holds=None)


def _summarize_extracted(views: Sequence[CacheNodeReport]) -> Condition:
    nodes = [
        view.node for view in views if holds(view.current.conditions if view.current else (), ConditionType.EXTRACTED)
    ]
    if nodes:
        return state(ConditionType.EXTRACTED, Reason.EXTRACTED, f"nodes with the files: {len(nodes)}", holds=True)
    failed = next((view for view in views if view.failure is not None), None)
    if failed is not None and failed.failure is not None:
        text = f"node {failed.node}: {failed.failure.message}"
        return state(ConditionType.EXTRACTED, failed.failure.reason, text, holds=False)
    return state(ConditionType.EXTRACTED, Reason.PENDING, "no node has the files yet", holds=False)


def _summarize_effective(views: Sequence[CacheNodeReport]) -> Condition:
    found = [(view.node, _find(view, ConditionType.EFFECTIVE)) for view in views]
    missing = [(node, each) for node, each in found if each is not None and each.status == "False"]
    if missing:
        node, first = missing[0]
        return state(ConditionType.EFFECTIVE, first.reason, f"node {node}: {first.message}", holds=False)
    hits = [node for node, each in found if each is not None and each.status == "True"]
    if hits:
        return state(ConditionType.EFFECTIVE, Reason.HITS, f"workloads hit the cache on {list_some(hits)}", holds=True)
    return state(ConditionType.EFFECTIVE, Reason.NOT_MEASURED, "no node has measured cache hits yet", holds=None)


def _find(view: CacheNodeReport, type_: ConditionType) -> Condition | None:
    return find_condition(view.current.conditions, type_) if view.current is not None else None
