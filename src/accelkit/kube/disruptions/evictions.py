"""Evicts pods, and reads of them what decides whether that may be."""

from __future__ import annotations

import msgspec

from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import PODS, build_pod_path
from accelkit.model.object_meta import ObjectMeta
from accelkit.model.pod import MIRROR_ANNOTATION, PodRef


class _Owner(msgspec.Struct):
    kind: str = ""


class _Meta(ObjectMeta):
    owner_references: list[_Owner] | None = msgspec.field(name="ownerReferences", default=None)


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    priority: int | None = None


class _Status(msgspec.Struct):
    phase: str = ""


class EvictablePod(msgspec.Struct):
    """A bound pod, with what decides whether it may be evicted."""

    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def ref(self) -> PodRef:
        """The pod's identity."""
        return PodRef(self.metadata.namespace, self.metadata.name, self.metadata.uid)

    @property
    def priority(self) -> int:
        """As admission wrote it."""
        return self.spec.priority or 0

    @property
    def labels(self) -> dict[str, str]:
        """By which budgets cover it."""
        return self.metadata.labels or {}

    @property
    def static(self) -> bool:
        """Whether a kubelet runs it from a file, so that an eviction only removes what mirrors it.

        Anybody may name a Node as the owner of a pod; of those with the annotation a kubelet deletes what it did not
        make itself.
        """
        return MIRROR_ANNOTATION in (self.metadata.annotations or {})

    @property
    def leaving(self) -> bool:
        """Whether it is being deleted, or has ended."""
        return self.metadata.deletion_timestamp is not None or self._ended

    def is_leaving(self, now: float) -> bool:
        """Return whether it has ended, or is expected to; `now` is in seconds since 1970."""
        return self._ended or (self.metadata.deletion_timestamp is not None and now < self.metadata.leaves_by)

    @property
    def _ended(self) -> bool:
        return self.status.phase in {"Succeeded", "Failed"}


async def list_evictable_pods(api: ApiClient, node: str) -> list[EvictablePod]:
    """Return the pods of a node as the API server knows them now; one that cannot be read is left out.

    Raises:
        ApiError: the API server refused, or did not answer.
    """
    found, _ = await list_all(api, PODS, EvictablePod, query={"fieldSelector": f"spec.nodeName={node}"})
    return found


async def evict(api: ApiClient, pod: PodRef, *, dry_run: bool = False) -> None:
    """Ask the API server to evict the pod with this UID, which it does where budgets allow that.

    Args:
        api: an open client.
        pod: who leaves.
        dry_run: whether it is only asked whether it would.

    Raises:
        ApiError: it refused, with 429 for a budget and 409 where the pod is another one now, or did not answer.
    """
    options: dict[str, object] = {"preconditions": {"uid": pod.uid}}
    if dry_run:
        options["dryRun"] = ["All"]
    metadata = {"name": pod.name, "namespace": pod.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
    await api.post(f"{build_pod_path(pod.namespace, pod.name)}/eviction", body)
