"""Plan writer, which applies plans sequentially while this replica is the leader, and records rejected requests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import ObjectName, ObservedObject, Refusal
from accelkit.cachecontroller.delivery import DeliveryMode, DeliveryPlan, SecretCopy
from accelkit.cachecontroller.metrics import ControllerMetrics
from accelkit.errors import ApiError, NotLeadingError
from accelkit.gkm.conditions import Reason
from accelkit.gkm.names import API, CLUSTER_CACHES
from accelkit.gkm.objects import Cache, CacheStatus
from accelkit.kernelcache.registry.pull_secrets import PULL_SECRET_KEYS
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.nesting import decode
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path, build_secrets_path
from accelkit.model.keys import CACHE_FINALIZER

# Size limits of a pull secret: decoded, and encoded in base64.
_MOST_SECRET_BYTES: Final = 64 << 10
_MOST_SECRET: Final = -(-_MOST_SECRET_BYTES // 3) * 4
_PULL_SECRET_TYPES: Final = frozenset({"kubernetes.io/dockerconfigjson", "kubernetes.io/dockercfg"})
# Length limit of a recorded error message, because quotas and third-party webhooks may return long messages.
_MOST_REFUSAL: Final = 400


_observed = msgspec.json.Decoder(ObservedObject)
_cache = msgspec.json.Decoder(Cache)


class _Secret(msgspec.Struct):
    type: str = ""
    data: dict[str, str] = {}


class PlanWriter:
    """Writer for the changes in plans.

    Args:
        api: open client with a short timeout for each request.
        cluster: state that stores the responses from the API server.
        metrics: metrics that count the writes.
        leads: function that returns whether this replica may write now.
    """

    def __init__(
        self, api: ApiClient, cluster: ClusterState, metrics: ControllerMetrics, leads: Callable[[], bool]
    ) -> None:
        self._api, self._cluster, self._metrics, self._leads = api, cluster, metrics, leads
        self._copied: set[SecretCopy] = set()

    async def apply(self, cache: Cache, mode: DeliveryMode, plan: DeliveryPlan) -> bool:
        """Apply a plan. Deletions are applied first, so that deleted objects do not conflict with their replacements.

        Returns:
            Whether anything was written.

        Raises:
            ApiError: the API server did not respond; the next pass makes the remaining changes.
            NotLeadingError: this replica is no longer the leader.
        """
        wrote = False
        for deletion in plan.delete:
            options = {"preconditions": {"uid": deletion.uid}, "propagationPolicy": "Background"}
            wrote |= await self._try("delete", deletion.name, self._api.delete(_path(deletion.name), options))
        for patch in plan.patch:
            body = patch.body if not patch.uid else _add_uid(patch.body, patch.uid)
            wrote |= await self._try("patch", patch.name, self._api.patch(_path(patch.name), body))
        for name, manifest in plan.create:
            wrote |= await self._create(cache, mode, name, manifest)
        for copied in plan.copies:
            await self._copy_secret(copied)
        return wrote

    async def write_status(self, cache: Cache, status: CacheStatus) -> None:
        """Replace the status of a cache if the UID of the cache is unchanged.

        Raises:
            ApiError: the API server rejected the request or did not respond.
            NotLeadingError: this replica is no longer the leader.
        """
        self._check()
        body = [
            # This operation does not change the UID. It makes the API server reject the patch if a new cache has this
            # name.
            {"op": "replace", "path": "/metadata/uid", "value": cache.metadata.uid},
            {"op": "add", "path": "/status", "value": msgspec.to_builtins(status)},
        ]
        path = f"{build_cache_path(cache)}/status"
        answer = await self._count("status", self._api.patch(path, body, kind="json"))
        self._take(answer)

    async def set_finalizers(self, cache: Cache, finalizers: list[str]) -> None:
        """Write the finalizers of a cache if the cache has not changed since it was read.

        Raises:
            ApiError: the API server rejected the request or did not respond.
            NotLeadingError: this replica is no longer the leader.
        """
        self._check()
        meta = cache.metadata
        body = {"metadata": {"resourceVersion": meta.resource_version, "uid": meta.uid, "finalizers": finalizers}}
        answer = await self._count("finalizer", self._api.patch(build_cache_path(cache), body))
        if CACHE_FINALIZER in finalizers:
            self._take(answer)

    async def _create(self, cache: Cache, mode: DeliveryMode, name: ObjectName, manifest: Mapping[str, Any]) -> bool:
        self._check()
        try:
            answer = await self._count("create", self._api.post(_collection(name), manifest))
        except ApiError as exc:
            if exc.already_exists:
                return await self.check_taken(cache, mode, name)
            self._note(name, exc)
            return False
        self._cluster.refuse(name, None)
        self._cluster.put(name, decode(_observed, answer))
        return True

    async def check_taken(self, cache: Cache, mode: DeliveryMode, name: ObjectName) -> bool:
        """Check whether the existing object with this name belongs to the cache. It may lack the cache's labels.

        Returns:
            Whether the object belongs to the cache. If it has a different owner, an error is recorded for it.

        Raises:
            ApiError: the API server rejected the request or did not respond.
        """
        found = await get_if_present(self._api, _path(name))
        if found is None:
            return False
        try:
            observed = decode(_observed, found)
        except UNREADABLE:
            observed = None
        if observed is not None and mode.owns(cache, name, observed):
            self._cluster.refuse(name, None)
            self._cluster.put(name, observed)
            return True
        kind = name.kind.kind.removeprefix("Persistent").replace("VolumeClaim", "claim")
        text = f"{kind} {name.namespace}/{name.name}".replace(" /", " ") + " exists but does not belong to this cache"
        refusal = Refusal(Reason.CLAIM_EXISTS, f"{text}; delete it, or choose another name for the cache")
        self._cluster.refuse(name, refusal)
        return False

    async def _copy_secret(self, copied: SecretCopy) -> None:
        """Copy a pull secret for waiting pods, unless the copy exists. Pod events report a missing source."""
        if copied in self._copied or self._cluster.find_refusal(copied.name) is not None:
            return
        self._check()
        secrets = build_secrets_path(copied.target[0])
        source = await get_if_present(
            self._api, build_object_path(build_secrets_path(copied.source[0]), copied.source[1])
        )
        if source is None:
            return
        found = msgspec.json.decode(source, type=_Secret)
        where = "/".join(copied.source)
        key = next((each for each in PULL_SECRET_KEYS if each in found.data), "")
        content = found.data.get(key, "")
        if not key or len(content) > _MOST_SECRET:
            text = f"has neither {' nor '.join(PULL_SECRET_KEYS)}"
            if key:
                text = f"has more than {_MOST_SECRET_BYTES} bytes of {key}"
            refusal = Refusal(Reason.PULL_SECRET_UNREADABLE, f"cannot copy Secret {where}: it {text}")
            self._cluster.refuse(copied.name, refusal)
            return
        owner = copied.owner
        reference = {"apiVersion": owner.kind.api_version, "kind": owner.kind.kind, "name": owner.name}
        metadata = {"name": copied.target[1], "ownerReferences": [{**reference, "uid": copied.owner_uid}]}
        # The copy has one key and a common type, so that the controller needs no permissions for other Secret types.
        type_ = found.type if found.type in _PULL_SECRET_TYPES else "Opaque"
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": type_, "data": {key: content}}
        try:
            await self._count("create", self._api.post(secrets, body))
        except ApiError as exc:
            if not exc.already_exists:
                raise
        self._copied.add(copied)

    async def _try(self, verb: str, name: ObjectName, request: Any) -> bool:
        try:
            self._check()
        except NotLeadingError:
            request.close()
            raise
        try:
            answer = await self._count(verb, request)
        except ApiError as exc:
            # A conflict means that another object now has the name, so the object to delete no longer exists.
            if exc.not_found or (verb == "delete" and exc.conflict):
                return False
            self._note(name, exc)
            return False
        self._cluster.refuse(name, None)
        if verb == "patch":
            self._cluster.put(name, decode(_observed, answer))
        return True

    async def _count(self, verb: str, request: Any) -> bytes:
        try:
            answer: bytes = await request
        except ApiError as exc:
            self._metrics.writes.labels(verb, exc.reason or "none").inc()
            raise
        self._metrics.writes.labels(verb, "done").inc()
        return answer

    def _note(self, name: ObjectName, exc: ApiError) -> None:
        if exc.unanswered or exc.conflict:
            # The state is unknown or has changed, so the next pass reads it.
            raise exc
        where = f"{name.kind.kind} {name.namespace}/{name.name}"
        self._cluster.refuse(
            name, Refusal(exc.reason or "Refused", f"cannot write {where}: {exc.message[:_MOST_REFUSAL]}")
        )

    def _take(self, answer: bytes) -> None:
        cache = decode(_cache, answer)
        known = self._cluster.caches.get(cache.key)
        if known is not None and known.metadata.uid == cache.metadata.uid:
            self._cluster.take_cache(cache)

    def _check(self) -> None:
        if not self._leads():
            raise NotLeadingError("cannot write to the API server: this replica is no longer the leader")


def build_cache_path(cache: Cache) -> str:
    """Return the API path of a cache."""
    if cache.of_cluster:
        return build_object_path(CLUSTER_CACHES, cache.metadata.name)
    return build_object_path(build_collection_path(API, "gkmcaches", cache.metadata.namespace), cache.metadata.name)


def _collection(name: ObjectName) -> str:
    return build_collection_path(name.kind.api_version, name.kind.plural, name.namespace or None)


def _path(name: ObjectName) -> str:
    return build_object_path(_collection(name), name.name)


def _add_uid(body: Mapping[str, Any], uid: str) -> dict[str, Any]:
    return {**body, "metadata": {**body.get("metadata", {}), "uid": uid}}
