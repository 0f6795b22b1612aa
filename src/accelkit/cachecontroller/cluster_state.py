"""Objects that affect caches, updated by watch events."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from accelkit.cachecontroller.claim_pods import ObservedPod, read_claim_pod
from accelkit.cachecontroller.cluster_view import (
    CLAIMS,
    REFUSAL_SECONDS,
    ClaimPod,
    Kind,
    NamedObject,
    ObjectName,
    ObservedNode,
    ObservedObject,
    Refusal,
)
from accelkit.cachecontroller.ownership import read_key
from accelkit.gkm.objects import Cache, CacheNode, SignerPolicyObject


class ClusterState:
    """Latest state of the watched objects, which is the basis for the decisions of each pass.

    Args:
        mark: callback that is called with the key of each cache that a change affects; None for all caches.
        clock: function that returns the seconds since 1970.
        home: accelkit's own namespace, in which the claims of all caches are filled.
    """

    def __init__(
        self, mark: Callable[[str | None], None], clock: Callable[[], float] = time.time, home: str = ""
    ) -> None:
        self._mark, self._clock, self._home = mark, clock, home
        self.caches: dict[str, Cache] = {}
        self.nodes: dict[str, str] = {}
        self._namespaces: dict[str, bool] = {}
        self._policies: dict[str, dict[str, Any]] = {}
        self._reports: dict[str, dict[str, CacheNode]] = defaultdict(dict)
        self._pods: dict[str, dict[str, ClaimPod]] = defaultdict(dict)
        self._objects: dict[Kind, dict[ObjectName, ObservedObject]] = defaultdict(dict)
        self._by_key: dict[tuple[Kind, str], set[ObjectName]] = defaultdict(set)
        self._refusals: dict[ObjectName, tuple[Refusal, float]] = {}

    # Passes read the state through the following members, which implement `cluster_view.ClusterView`.

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock()

    @property
    def namespaces(self) -> Mapping[str, bool]:
        """For each existing namespace, whether it is being deleted."""
        return self._namespaces

    @property
    def policies(self) -> Mapping[str, dict[str, Any]]:
        """Specs of the SignerPolicies, keyed by name."""
        return self._policies

    def find(self, name: ObjectName) -> ObservedObject | None:
        """Return an object of a watched kind; None if it does not exist or does not match the selector of the watch."""
        return self._objects[name.kind].get(name)

    def list_of_cache(self, kind: Kind, key: str) -> list[tuple[ObjectName, ObservedObject]]:
        """Return the objects of a kind with an annotation that refers to the cache."""
        return [(name, self._objects[kind][name]) for name in sorted(self._by_key[kind, key], key=str)]

    def list_all(self, kind: Kind) -> list[tuple[ObjectName, ObservedObject]]:
        """Return all objects of a watched kind that match the selector of the watch."""
        return list(self._objects[kind].items())

    def list_keys(self) -> set[str]:
        """Return the keys of all existing caches, and of all caches to which annotations of objects refer."""
        return {*self.caches, *(key for (_, key), found in self._by_key.items() if found)}

    def find_refusal(self, name: ObjectName) -> Refusal | None:
        """Return the reason why the last write of an object failed; None after `REFUSAL_SECONDS`."""
        refusal, until = self._refusals.get(name, (None, 0.0))
        return refusal if self._clock() < until else None

    def list_pods(self, namespace: str) -> list[ClaimPod]:
        """Return the pods of a namespace that mount claims or images and have not terminated."""
        return sorted(self._pods.get(namespace, {}).values(), key=lambda pod: pod.name)

    def list_reports(self, cache: Cache) -> list[CacheNode]:
        """Return the node reports for the namespace of a cache or, if it has no namespace, for ClusterGKMCaches."""
        return list(self._reports.get(cache.metadata.namespace, {}).values())

    # Writes update the state through the following members.

    def refuse(self, name: ObjectName, refusal: Refusal | None) -> None:
        """Record the reason why an object could not be written; None records a successful write."""
        if refusal is None:
            self._refusals.pop(name, None)
        else:
            self._refusals[name] = refusal, self._clock() + REFUSAL_SECONDS

    def put(self, name: ObjectName, observed: ObservedObject) -> None:
        """Store an object from an API server response, unless a newer version of it is stored."""
        if (known := self.find(name)) is not None and observed.metadata.is_older_than(known.metadata):
            return
        self._discard(name)
        self._objects[name.kind][name] = observed
        if (key := read_key(name, observed, self._home)) is not None:
            self._by_key[name.kind, key].add(name)

    def take_cache(self, cache: Cache) -> None:
        """Store a cache from an API server response, unless a newer version of it is stored."""
        if (known := self.caches.get(cache.key)) is None or not cache.metadata.is_older_than(known.metadata):
            self.caches[cache.key] = cache

    # Watches update the state through the following members.

    def replace_caches(self, of_cluster: bool) -> Callable[[list[Cache]], None]:  # noqa: FBT001 - two kinds
        """Return the callback that stores a list of GKMCaches or ClusterGKMCaches."""

        def replace(caches: list[Cache]) -> None:
            for key in [key for key, each in self.caches.items() if each.of_cluster is of_cluster]:
                del self.caches[key]
            for each in caches:
                self.caches[each.key] = each
            self._mark(None)

        return replace

    def take_cache_event(self, kind: str, cache: Cache) -> None:
        """Apply a watch event for a cache."""
        known = self.caches.get(cache.key)
        if known is not None and cache.metadata.is_older_than(known.metadata):
            return
        if kind == "DELETED":
            self.caches.pop(cache.key, None)
        else:
            self.caches[cache.key] = cache
            if known is not None and known.metadata.resource_version == cache.metadata.resource_version:
                # The event results from a write of this controller.
                return
        self._mark(cache.key)

    def replace_policies(self, policies: list[SignerPolicyObject]) -> None:
        """Store all SignerPolicies."""
        self._policies = {each.metadata.name: each.spec for each in policies}
        self._mark(None)

    def take_policy_event(self, kind: str, policy: SignerPolicyObject) -> None:
        """Apply a watch event for a SignerPolicy."""
        changed = {key: value for key, value in self._policies.items() if key != policy.metadata.name}
        if kind != "DELETED":
            changed[policy.metadata.name] = policy.spec
        if changed != self._policies:
            self._policies = changed
            self._mark(None)

    def replace_namespaces(self, namespaces: list[NamedObject]) -> None:
        """Store all namespaces."""
        self._namespaces = {each.metadata.name: bool(each.metadata.deletion_timestamp) for each in namespaces}
        self._mark(None)

    def take_namespace_event(self, kind: str, namespace: NamedObject) -> None:
        """Apply a watch event for a namespace."""
        name, leaves = namespace.metadata.name, bool(namespace.metadata.deletion_timestamp)
        if kind == "DELETED":
            self._namespaces.pop(name, None)
        elif self._namespaces.get(name) is leaves:
            return
        else:
            self._namespaces[name] = leaves
        for key, cache in self.caches.items():
            if name in cache.namespaces:
                self._mark(key)

    def replace_nodes(self, nodes: list[ObservedNode]) -> None:
        """Store the names and hostnames of all nodes."""
        self.nodes = {each.metadata.name: each.host for each in nodes}
        self._mark(None)

    def take_node_event(self, kind: str, node: ObservedNode) -> None:
        """Apply a watch event for a node."""
        name, known = node.metadata.name, node.metadata.name in self.nodes
        if kind == "DELETED":
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = node.host
        if known is not (name in self.nodes):
            for reports in self._reports.values():
                self._mark_reported(reports.get(name))

    def replace_reports(self, of_cluster: bool) -> Callable[[list[CacheNode]], None]:  # noqa: FBT001 - two kinds
        """Return the callback that stores a list of GKMCacheNodes or ClusterGKMCacheNodes."""

        def replace(reports: list[CacheNode]) -> None:
            for namespace in [each for each in self._reports if bool(each) is not of_cluster]:
                del self._reports[namespace]
            for each in reports:
                self._reports[each.metadata.namespace][each.metadata.name] = each
            self._mark(None)

        return replace

    def take_report_event(self, kind: str, report: CacheNode) -> None:
        """Apply a watch event for a node report, and mark the caches with changed entries."""
        at, name = report.metadata.namespace, report.metadata.name
        former = self._reports[at].pop(name, None)
        if kind != "DELETED":
            self._reports[at][name] = report
        before = former.status.caches if former is not None else {}
        after = report.status.caches if kind != "DELETED" else {}
        for cache in before.keys() | after.keys():
            if before.get(cache) != after.get(cache):
                self._mark(f"{at}/{cache}")

    def replace_pods(self, pods: list[ObservedPod]) -> None:
        """Store all pods."""
        self._pods.clear()
        for each in pods:
            if (found := read_claim_pod(each)) is not None:
                self._pods[found.namespace][each.metadata.uid] = found
        self._mark(None)

    def take_pod_event(self, kind: str, pod: ObservedPod) -> None:
        """Apply a watch event for a pod."""
        here = self._pods[pod.metadata.namespace]
        former = here.pop(pod.metadata.uid, None)
        if (present := read_claim_pod(pod) if kind != "DELETED" else None) is not None:
            here[pod.metadata.uid] = present
        if former != present:
            self._mark_claimed(former, present)

    def replace_objects(self, kind: Kind) -> Callable[[list[ObservedObject]], None]:
        """Return the callback that stores all objects of a kind."""

        def replace(objects: list[ObservedObject]) -> None:
            before = self._list_versions(kind)
            for name in list(self._objects[kind]):
                self._discard(name)
            for each in objects:
                self.put(_name(kind, each), each)
            # Some kinds are listed again at regular intervals.
            if not before or before != self._list_versions(kind):
                self._mark(None)

        return replace

    def take_object_event(self, kind: Kind) -> Callable[[str, ObservedObject], None]:
        """Return the callback that applies watch events for a kind."""

        def take(event: str, observed: ObservedObject) -> None:
            name = _name(kind, observed)
            if (known := self.find(name)) is not None and observed.metadata.is_older_than(known.metadata):
                return
            keys = {*(read_key(name, each, self._home) for each in (observed, known)), self._find_reported(observed)}
            if event == "DELETED":
                self._discard(name)
            else:
                self.put(name, observed)
            for key in keys - {None}:
                self._mark(key)

        return take

    def _list_versions(self, kind: Kind) -> set[tuple[str, str]]:
        return {(each.metadata.uid, each.metadata.resource_version) for each in self._objects[kind].values()}

    def _find_reported(self, event: ObservedObject) -> str | None:
        """Return the key of the cache that owns the claim in an Event."""
        involved = event.involved_object
        name = ObjectName(CLAIMS, str(involved.get("name", "")), str(involved.get("namespace", "")))
        return read_key(name, self.find(name), self._home) if involved else None

    def _discard(self, name: ObjectName) -> None:
        former = self._objects[name.kind].pop(name, None)
        if (key := read_key(name, former, self._home)) is not None:
            found = self._by_key[name.kind, key]
            found.discard(name)
            if not found:
                del self._by_key[name.kind, key]

    def _mark_reported(self, report: CacheNode | None) -> None:
        if report is not None:
            for cache in report.status.caches:
                self._mark(f"{report.metadata.namespace}/{cache}")

    def _mark_claimed(self, *pods: ClaimPod | None) -> None:
        claimed = {(each.namespace, claim) for each in pods if each is not None for claim in each.claims}
        for namespace, claim in claimed:
            name = ObjectName(CLAIMS, claim, namespace)
            observed = self.find(name)
            if observed is not None and (key := read_key(name, observed, self._home)):
                self._mark(key)
            elif observed is None:
                # The pod may wait for a claim that does not exist yet: the claim of a cache, or a pinned claim.
                for part in (claim, claim.rpartition("-")[0]):
                    for waiting in {f"{namespace}/{part}", f"/{part}"} & self.caches.keys():
                        self._mark(waiting)


def _name(kind: Kind, observed: ObservedObject) -> ObjectName:
    return ObjectName(kind, observed.metadata.name, observed.metadata.namespace)
