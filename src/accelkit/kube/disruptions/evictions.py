"""Eviction of pods, and the pod fields that decide whether a pod may be evicted."""

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
    """A bound pod with the fields that decide whether it may be evicted."""

    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def ref(self) -> PodRef:
        """Identity of the pod."""
        return PodRef(self.metadata.namespace, self.metadata.name, self.metadata.uid)

    @property
    def priority(self) -> int:
        """Priority of the pod, as admission set it."""
        return self.spec.priority or 0

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the pod, which the selectors of budgets match."""
        return self.metadata.labels or {}

    @property
    def static(self) -> bool:
        """Whether a kubelet runs the pod from a file, so that an eviction only deletes its mirror pod.

        The annotation decides, because every user may name a Node as the owner of a pod. A kubelet deletes a pod with
        the annotation if it did not create that pod.
        """
        return MIRROR_ANNOTATION in (self.metadata.annotations or {})

    @property
    def leaving(self) -> bool:
        """Whether the pod is being deleted, or has ended."""
        return self.metadata.deletion_timestamp is not None or self._ended

    def is_leaving(self, now: float) -> bool:
        """Return whether the pod has ended, or is being deleted and expected to end.

        Args:
            now: seconds since 1970.
        """
        return self._ended or (self.metadata.deletion_timestamp is not None and now < self.metadata.leaves_by)

    @property
    def _ended(self) -> bool:
        return self.status.phase in {"Succeeded", "Failed"}


async def list_evictable_pods(api: ApiClient, node: str) -> list[EvictablePod]:
    """Return the pods of a node from the API server; a pod that cannot be read is left out.

    Raises:
        ApiError: the API server refused or did not answer.
    """
    found, _ = await list_all(api, PODS, EvictablePod, query={"fieldSelector": f"spec.nodeName={node}"})
    return found


async def evict(api: ApiClient, pod: PodRef, *, dry_run: bool = False) -> None:
    """Evict the pod with this UID through the API server, which obeys PodDisruptionBudgets.

    Args:
        api: an open client.
        pod: the pod to evict.
        dry_run: whether the API server only checks if the eviction is allowed.

    Raises:
        ApiError: the API server did not answer, or refused: with 429 because of a budget, or with 409 if another pod
            has this name now.
    """
    options: dict[str, object] = {"preconditions": {"uid": pod.uid}}
    if dry_run:
        options["dryRun"] = ["All"]
    metadata = {"name": pod.name, "namespace": pod.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
    await api.post(f"{build_pod_path(pod.namespace, pod.name)}/eviction", body)
