"""Functions that create, change and delete the kernel caches of a cluster, and wait for them. Playbooks use them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from accelkit.errors import ApiError, ConfigurationError, ServiceError
from accelkit.gkm.conditions import Condition, ConditionType, Reason, find_condition, holds, is_refusal
from accelkit.gkm.names import API, CACHES, CLUSTER_CACHE_NODES, CLUSTER_CACHES
from accelkit.gkm.objects import CACHE_KIND, CLUSTER_CACHE_KIND, Cache, CacheNode, NodeCacheStatus
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.objects import delete_if_present, get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.model.keys import CACHE_FINALIZER

POLL_SECONDS: Final = 1.0
# A cache may be rejected because its policy is created slightly later. In that case, the rejection ends within this
# time.
_VERDICT_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """The desired state of a cache with a given name.

    Attributes:
        name: the name of the cache.
        namespace: the namespace of the cache; empty for a ClusterGKMCache.
        spec: the desired fields, with their JSON names. Other fields are not changed.
    """

    name: str
    namespace: str = ""
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """GKMCache or ClusterGKMCache."""
        return CACHE_KIND if self.namespace else CLUSTER_CACHE_KIND

    @property
    def path(self) -> str:
        """The path of the object."""
        return build_object_path(self.collection, self.name)

    @property
    def collection(self) -> str:
        """The path of the collection."""
        return build_collection_path(API, "gkmcaches", self.namespace) if self.namespace else CLUSTER_CACHES

    def __str__(self) -> str:
        return f"{self.kind} {f'{self.namespace}/' if self.namespace else ''}{self.name}"


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node's report about the cache digest that pods get.

    Attributes:
        node: the name of the node.
        ready: whether the files are available to pods on the node.
        reason: the reason of the most specific condition that is false. If no condition is false, the reason of Ready.
        message: the message of that condition.
    """

    node: str
    ready: bool
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.node} ({_join(self.reason, self.message)})"


async def write_cache(api: ApiClient, request: CacheRequest, *, check: bool = False) -> tuple[dict[str, Any], bool]:
    """Create a cache, or change the given fields in its spec.

    Returns:
        The previous spec, which is empty if the cache did not exist, and whether the cache was changed. In check mode,
        the second value is whether the cache would be changed.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    raw = await get_if_present(api, request.path)
    if raw is None:
        await _must_be_served(api)
        if not request.spec.get("image"):
            raise ConfigurationError(f"cannot create {request}: the image is missing", next_step="specify the image")
        if not check:
            metadata = {"name": request.name} | ({"namespace": request.namespace} if request.namespace else {})
            body = {"apiVersion": API, "kind": request.kind, "metadata": metadata, "spec": dict(request.spec)}
            await api.post(request.collection, body)
        return {}, True
    spec: dict[str, Any] = msgspec.json.decode(raw).get("spec") or {}
    differing = {key: value for key, value in request.spec.items() if spec.get(key) != value}
    if differing and not check:
        # A merge patch would merge dictionaries instead of replacing them.
        patch = [{"op": "add", "path": f"/spec/{key}", "value": value} for key, value in differing.items()]
        await api.patch(request.path, patch, kind="json")
    return spec, bool(differing)


async def _must_be_served(api: ApiClient) -> None:
    try:
        await api.get(CACHES, query={"limit": "1"})
    except ApiError as exc:
        if not exc.not_found:
            raise
        raise ConfigurationError(
            "cannot manage kernel caches: this cluster does not serve them",
            next_step="run site.yml with accelkit_kernel_caches: true",
        ) from exc


async def delete_cache(api: ApiClient, request: CacheRequest, *, seconds: float | None, check: bool = False) -> bool:
    """Delete a cache; return whether it existed.

    Args:
        api: an open client.
        request: the cache.
        seconds: the maximum time to wait for the deletion; None to skip waiting.
        check: whether to return the result without deleting the cache.

    Raises:
        ApiError: the API server rejected the request or did not respond.
        ServiceError: the cache still exists after the maximum time. The error contains the reason.
    """
    if await get_if_present(api, request.path) is None:
        return False
    if check:
        return True
    await delete_if_present(api, request.path)
    deadline = time.monotonic() + (seconds or 0)
    while seconds is not None and (raw := await get_if_present(api, request.path)) is not None:
        if time.monotonic() > deadline:
            reason, next_step = _find_holder(msgspec.json.decode(raw, type=Cache))
            raise ServiceError(
                f"cannot delete {request}: it still exists after {seconds:g} s: {reason}", next_step=next_step
            )
        await asyncio.sleep(POLL_SECONDS)
    return True


def _find_holder(cache: Cache) -> tuple[str, str]:
    """Return the reason why a cache still exists after its deletion, and the next step for the user."""
    if CACHE_FINALIZER in cache.metadata.finalizers:
        ready = find_condition(cache.status.conditions, ConditionType.READY)
        reason = ready.message if ready is not None and ready.message else "its finalizers were not removed"
        return reason, "delete the pods that mount it, and check that the cache controller runs"
    others = ", ".join(cache.metadata.finalizers) or "none"
    return f"it has finalizers of other controllers: {others}", "find these controllers, and remove their finalizers"


async def read_cache(api: ApiClient, request: CacheRequest) -> tuple[Cache | None, list[NodeReport]]:
    """Return a cache, or None if it does not exist, and the nodes' reports about its digest, sorted by node.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    raw = await get_if_present(api, request.path)
    if raw is None:
        return None, []
    cache = msgspec.json.decode(raw, type=Cache)
    nodes = build_collection_path(API, "gkmcachenodes", request.namespace)
    found, _ = await list_all(api, nodes if request.namespace else CLUSTER_CACHE_NODES, CacheNode)
    reports = []
    for node in sorted(found, key=lambda each: each.metadata.name):
        status = node.status.caches.get(request.name, {}).get(cache.status.resolved_digest)
        if status is not None:
            reports.append(_summarise(node.metadata.name, status))
    return cache, reports


def _summarise(node: str, status: NodeCacheStatus) -> NodeReport:
    ready = holds(status.conditions, ConditionType.READY)
    candidates = [
        found
        for type_ in (ConditionType.COMPATIBLE, ConditionType.EXTRACTED, ConditionType.READY)
        if (found := find_condition(status.conditions, type_)) is not None and (ready or found.status == "False")
    ]
    chosen = (candidates[-1] if ready else candidates[0]) if candidates else Condition("", "", str(Reason.PENDING))
    return NodeReport(node, ready, chosen.reason, chosen.message)


async def wait_for_cache(api: ApiClient, request: CacheRequest, *, seconds: float) -> tuple[Cache, list[NodeReport]]:
    """Wait until a cache is ready or has failed permanently.

    Raises:
        ApiError: the API server rejected the request or did not respond.
        ServiceError: the cache is not ready. The error lists the conditions and nodes with their reasons.
    """
    begun = time.monotonic()
    refused_since: float | None = None
    while True:
        cache, reports = await read_cache(api, request)
        if cache is None:
            raise ServiceError(f"cannot wait for {request}: it was deleted", next_step="create it again")
        now = time.monotonic()
        current = cache.status.observed_generation >= cache.metadata.generation
        if current and holds(cache.status.conditions, ConditionType.READY):
            return cache, reports
        refused = current and is_refusal(find_condition(cache.status.conditions, ConditionType.VERIFIED))
        refused_since = (refused_since if refused_since is not None else now) if refused else None
        if now - begun > seconds or (refused_since is not None and now - refused_since >= _VERDICT_SECONDS):
            raise ServiceError(
                f"{request} is not ready after {now - begun:.0f} s: {explain(cache, reports)}",
                next_step=f"run `kubectl describe {request.kind.lower()} {request.name}`",
            )
        await asyncio.sleep(POLL_SECONDS)


def explain(cache: Cache, reports: list[NodeReport]) -> str:
    """Return the reasons why a cache is not ready, including the nodes on which it is not ready."""
    if cache.status.observed_generation < cache.metadata.generation:
        return "the cache controller has not processed it yet"
    failed = [each for each in cache.status.conditions if each.status != "True" and each.type in _DECIDING]
    reasons = [f"{each.type} is {each.status} ({_join(each.reason, each.message)})" for each in failed]
    waiting = [str(each) for each in reports if not each.ready]
    if waiting:
        reasons.append(f"on the nodes {', '.join(waiting)}")
    return "; ".join(reasons) or "no condition states a reason"


def _join(reason: str, message: str) -> str:
    return f"{reason}: {message}" if message else reason


_DECIDING: Final = frozenset(
    str(each) for each in (ConditionType.RESOLVED, ConditionType.VERIFIED, ConditionType.EXTRACTED, ConditionType.READY)
)
