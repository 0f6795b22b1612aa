"""The cache controller's watches."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from accelkit.cachecontroller.claim_pods import ObservedPod, trim_pod
from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import CLAIMS, VOLUMES, NamedObject, ObservedNode, ObservedObject
from accelkit.cachecontroller.delivery import DeliveryMode, Watch
from accelkit.errors import ApiError
from accelkit.gkm.names import CACHE_NODES, CACHES, CLUSTER_CACHE_NODES, CLUSTER_CACHES, SIGNER_POLICIES
from accelkit.gkm.objects import Cache, CacheNode, Delivery, SignerPolicyObject
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import Listed
from accelkit.kube.paths import NODES, PODS, build_collection_path
from accelkit.kube.reflector import Reflector

log = logging.getLogger(__name__)

_T = TypeVar("_T", bound=Listed)
_NAMESPACES = build_collection_path("v1", "namespaces")


class Watches:
    """All watches of the cache controller.

    Args:
        api: open client.
        cluster: state that the watches update.
        on_current: callback that is called when all collections have been listed again after `relist`.
    """

    def __init__(self, api: ApiClient, cluster: ClusterState, on_current: Callable[[], None]) -> None:
        self._api, self._cluster, self._on_current = api, cluster, on_current
        self._stale: set[str] = set()
        self._reported = True
        self._unread: set[str] = set()
        self._by_path: dict[str, Reflector[Any]] = {}
        for path, of_cluster in ((CACHES, False), (CLUSTER_CACHES, True)):
            self._add(path, Cache, cluster.replace_caches(of_cluster), cluster.take_cache_event)
        for path, of_cluster in ((CACHE_NODES, False), (CLUSTER_CACHE_NODES, True)):
            self._add(path, CacheNode, cluster.replace_reports(of_cluster), cluster.take_report_event)
        self._add(SIGNER_POLICIES, SignerPolicyObject, cluster.replace_policies, cluster.take_policy_event)
        self._add(_NAMESPACES, NamedObject, cluster.replace_namespaces, cluster.take_namespace_event)
        self._add(NODES, ObservedNode, cluster.replace_nodes, cluster.take_node_event)
        self._add(PODS, ObservedPod, cluster.replace_pods, cluster.take_pod_event, trim=trim_pod)

    async def add_objects(self, modes: Mapping[Delivery, DeliveryMode]) -> dict[Delivery, DeliveryMode]:
        """Add watches for claims, volumes, and the other kinds that delivery modes need.

        Returns:
            The delivery modes whose kinds can be read. A missing permission disables only the modes that need the
                permission.

        Raises:
            ApiError: the API server did not respond.
        """
        watches = {watch.kind: watch for watch in (Watch(CLAIMS), Watch(VOLUMES))}
        served = {}
        for delivery, mode in modes.items():
            more = {watch.kind: watch for watch in mode.watches if watch.kind not in watches}
            obstacles = {kind: await self._find_obstacle(watch) for kind, watch in more.items()}
            lacking = [why for kind, why in obstacles.items() if why and not more[kind].optional]
            if lacking:
                log.warning("delivery unavailable: delivery=%s error=%s", delivery.value, "; ".join(lacking))
                continue
            served[delivery] = mode
            watches |= {kind: watch for kind, watch in more.items() if not obstacles[kind]}
        for watch in watches.values():
            selectors = {"labelSelector": watch.selector, "fieldSelector": watch.fields}
            query = {name: text for name, text in selectors.items() if text}
            replace, take = self._cluster.replace_objects(watch.kind), self._cluster.take_object_event(watch.kind)
            self._add(_path(watch), ObservedObject, replace, take, query, bookmarks=watch.bookmarks)
        return served

    async def run(self) -> None:
        """Run all watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._by_path.values():
                group.create_task(each.run())

    @property
    def read(self) -> bool:
        """Whether all collections have been read at least once."""
        return not self._unread

    @property
    def unreadable(self) -> int:
        """Number of objects that could not be read."""
        return sum(each.unreadable for each in self._by_path.values())

    def measure_silence_seconds(self) -> float:
        """Return the longest time that a watch has been disconnected, in seconds; 0 if all watches are connected."""
        return max((each.measure_silence_seconds() for each in self._by_path.values()), default=0.0)

    def relist(self) -> None:
        """List all collections again, because a new leader must not rely on earlier lists."""
        self._reported = False
        for path, reflector in self._by_path.items():
            self._stale.add(path)
            reflector.relist()

    def _add(
        self,
        path: str,
        type_: type[_T],
        replace: Callable[[list[_T]], None],
        take: Callable[[str, _T], None],
        query: dict[str, str] | None = None,
        *,
        bookmarks: bool = True,
        trim: Callable[[_T], None] = lambda _object: None,
    ) -> None:
        # Some kinds have two watches: one for all objects, and one with a selector.
        key = f"{path}?{query}" if query else path
        self._stale.add(key)
        self._unread.add(key)

        def read(objects: list[_T]) -> None:
            replace(objects)
            self._stale.discard(key)
            self._unread.discard(key)
            if not self._stale and not self._reported:
                self._reported = True
                self._on_current()

        self._by_path[key] = Reflector(
            self._api, path, type_, query=query, bookmarks=bookmarks, trim=trim, on_replace=read, on_event=take
        )

    async def _find_obstacle(self, watch: Watch) -> str:
        """Return the reason why objects of a kind cannot be read; empty if they can be read."""
        try:
            path = _path(watch)
            await self._api.get(path, query={"limit": "1"})
        except ApiError as exc:
            if exc.not_found or exc.forbidden:
                return f"{watch.kind.plural}: {exc.message}"
            raise
        return ""


def _path(watch: Watch) -> str:
    return build_collection_path(watch.kind.api_version, watch.kind.plural, watch.namespace or None)
