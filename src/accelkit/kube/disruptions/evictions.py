"""Functions that list and evict the pods on a node."""

from __future__ import annotations

from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.paths import PODS, build_pod_path
from accelkit.kube.views.pod import EvictablePod
from accelkit.model.pod import PodRef


async def list_evictable_pods(api: ApiClient, node: str) -> list[EvictablePod]:
    """Return the pods on a node from the API server, except unreadable pods.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    found, _ = await list_all(api, PODS, EvictablePod, query={"fieldSelector": f"spec.nodeName={node}"})
    return found


async def evict(api: ApiClient, pod: PodRef, *, dry_run: bool = False) -> None:
    """Evict the pod with the specified UID through the API server, which enforces PodDisruptionBudgets.

    Args:
        api: an open client.
        pod: the pod to evict.
        dry_run: whether the API server should only check if the eviction is allowed.

    Raises:
        ApiError: the API server did not respond, or rejected the request. The status is 429 if a budget prevents the
            eviction, or 409 if another pod now has this name.
    """
    options: dict[str, object] = {"preconditions": {"uid": pod.uid}}
    if dry_run:
        options["dryRun"] = ["All"]
    metadata = {"name": pod.name, "namespace": pod.namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata, "deleteOptions": options}
    await api.post(f"{build_pod_path(pod.namespace, pod.name)}/eviction", body)
