"""The agent's watches: caches, signer policies, its own node, the pods on this node, and its own reports."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Final

import msgspec

from accelkit.cacheagent.planning.desired_caches import DesiredCache, read_desired_cache, trim_cache
from accelkit.cacheagent.planning.observed import (
    MountingPod,
    Node,
    OwnNode,
    Pod,
    read_mounting_pod,
    read_own_node,
    trim_pod,
)
from accelkit.errors import CacheError
from accelkit.gkm import names
from accelkit.gkm.objects import Cache, CacheNode, NodeStatus, SignerPolicyObject
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE, Identified, Listed
from accelkit.kube.paths import NODES, PODS
from accelkit.kube.reflector import Reflector
from accelkit.reporting import OnceReporter

log = logging.getLogger(__name__)

_DELETED: Final = "DELETED"
_identified = msgspec.json.Decoder(Identified)


class Watches:
    """Watches with the latest state of the watched objects.

    Args:
        api: open client.
        node: name of this node.
        on_change: callback that is called after each change.
    """

    def __init__(self, api: ApiClient, node: str, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._errors = OnceReporter(log)
        self.desired_caches: dict[str, DesiredCache] = {}
        # Keys of caches with an invalid status. The agent does not change the files of these caches.
        self.unreadable: set[str] = set()
        self.pods: dict[str, MountingPod] = {}
        self.policies: dict[str, object] = {}
        # Incremented each time a policy changes.
        self.policies_version = 0
        self.node: OwnNode | None = None
        # Reports, keyed by namespace. The namespace of the report about ClusterGKMCaches is empty.
        self.reports: dict[str, NodeStatus] = {}
        own = {"fieldSelector": f"metadata.name={node}"}
        self._reflectors: list[Reflector[Any]] = [
            self._watch_caches(api, names.CACHES, of_cluster=False),
            self._watch_caches(api, names.CLUSTER_CACHES, of_cluster=True),
            self._watch_reports(api, names.CACHE_NODES, own, of_cluster=False),
            self._watch_reports(api, names.CLUSTER_CACHE_NODES, own, of_cluster=True),
            self._watch_policies(api),
            self._watch_pods(api, node),
            Reflector(
                api,
                NODES,
                Node,
                query=own,
                on_replace=self._replacer(lambda: None, self._take_node),
                on_event=self._take_node,
            ),
        ]

    @property
    def synced(self) -> bool:
        """Whether all objects have been listed. After that, an object that is not recorded does not exist."""
        return self.node is not None and all(each.synced.is_set() for each in self._reflectors)

    def list_loops(self) -> list[Coroutine[Any, Any, None]]:
        """Return the coroutines that must run concurrently."""
        return [each.run() for each in self._reflectors]

    def _watch_caches(self, api: ApiClient, path: str, *, of_cluster: bool) -> Reflector[Cache]:
        return Reflector(
            api,
            path,
            Cache,
            trim=trim_cache,
            on_replace=self._replacer(self._drop_caches(of_cluster), self._take_cache),
            on_event=self._take_cache,
            on_unreadable=self._note_unreadable,
        )

    def _watch_reports(
        self, api: ApiClient, path: str, query: Mapping[str, str], *, of_cluster: bool
    ) -> Reflector[CacheNode]:
        return Reflector(
            api,
            path,
            CacheNode,
            query=query,
            on_replace=self._replacer(self._drop_reports(of_cluster), self._take_report),
            on_event=self._take_report,
        )

    def _watch_policies(self, api: ApiClient) -> Reflector[SignerPolicyObject]:
        return Reflector(
            api,
            names.SIGNER_POLICIES,
            SignerPolicyObject,
            on_replace=self._replacer(self.policies.clear, self._take_policy),
            on_event=self._take_policy,
            on_unreadable=self._break_policy,
        )

    def _watch_pods(self, api: ApiClient, node: str) -> Reflector[Pod]:
        return Reflector(
            api,
            PODS,
            Pod,
            query={"fieldSelector": f"spec.nodeName={node}"},
            trim=trim_pod,
            on_replace=self._replacer(self.pods.clear, self._take_pod),
            on_event=self._take_pod,
            on_unreadable=self._take_unreadable_pod,
        )

    def _replacer(
        self, drop: Callable[[], None], take: Callable[[str, Any], None]
    ) -> Callable[[Iterable[Listed]], None]:
        def replace(objects: Iterable[Listed]) -> None:
            drop()
            for each in objects:
                take("ADDED", each)
            self._on_change()

        return replace

    def _drop_caches(self, of_cluster: bool) -> Callable[[], None]:  # noqa: FBT001 - of two lists
        def drop() -> None:
            for key in [key for key in (*self.desired_caches, *self.unreadable) if key.startswith("/") is of_cluster]:
                self._discard_cache(key)

        return drop

    def _discard_cache(self, key: str) -> None:
        self.desired_caches.pop(key, None)
        self.unreadable.discard(key)

    def _take_cache(self, kind: str, cache: Cache) -> None:
        self._discard_cache(cache.key)
        # Ignore a cache until the controller has written the selected delivery to its status.
        if kind != _DELETED and cache.status.delivery:
            try:
                self.desired_caches[cache.key] = read_desired_cache(cache)
            except CacheError as exc:
                self.unreadable.add(cache.key)
                self._errors.report(f"{cache.key} {exc}", f"cannot update cache {cache.key}: {exc}")
        self._on_change()

    def _note_unreadable(self, kind: str, text: bytes) -> None:
        try:
            found = _identified.decode(text).metadata
        except UNREADABLE:
            return
        key = f"{found.namespace}/{found.name}"
        self._discard_cache(key)
        if kind != _DELETED:
            self.unreadable.add(key)
        self._on_change()

    def _drop_reports(self, of_cluster: bool) -> Callable[[], None]:  # noqa: FBT001 - of two lists
        def drop() -> None:
            for namespace in [each for each in self.reports if (not each) is of_cluster]:
                del self.reports[namespace]

        return drop

    def _take_report(self, kind: str, report: CacheNode) -> None:
        if kind == _DELETED:
            self.reports.pop(report.metadata.namespace, None)
        else:
            self.reports[report.metadata.namespace] = report.status
        self._on_change()

    def _take_policy(self, kind: str, policy: SignerPolicyObject) -> None:
        self.policies.pop(policy.metadata.name, None)
        if kind != _DELETED:
            self.policies[policy.metadata.name] = policy.spec
        self.policies_version += 1
        self._on_change()

    def _break_policy(self, kind: str, text: bytes) -> None:
        # An unreadable policy may cover any image, so its name must be recorded.
        try:
            name = _identified.decode(text).metadata.name
        except UNREADABLE:
            name = "?"
        self.policies.pop(name, None)
        if kind != _DELETED:
            self.policies[name] = None
        self.policies_version += 1
        self._on_change()

    def _take_pod(self, kind: str, pod: Pod) -> None:
        found = None if kind == _DELETED else read_mounting_pod(pod)
        before = self.pods.pop(pod.metadata.uid, None)
        if found is not None:
            self.pods[found.uid] = found
        if found != before:
            self._on_change()

    def _take_unreadable_pod(self, kind: str, text: bytes) -> None:
        try:
            found = _identified.decode(text).metadata
        except UNREADABLE:
            return
        self.pods.pop(found.uid, None)
        if kind != _DELETED:
            self.pods[found.uid] = MountingPod(found.uid, found.namespace, found.name, frozenset(), readable=False)
        self._on_change()

    def _take_node(self, kind: str, node: Node) -> None:
        found = None if kind == _DELETED else read_own_node(node)
        if found != self.node:
            self.node = found
            self._on_change()
