"""Creation and deletion of check pods, including pods from an earlier run that was killed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec

from accelkit.enablement.work.pods import RUN_ANNOTATION, SELECTOR, CheckPod
from accelkit.errors import ApiError, ServiceError
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import list_all
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path

TRIES: Final = 3
RETRY_SECONDS: Final = 1.0
POLL_SECONDS: Final = 1.0
_GONE_SECONDS: Final = 60.0
_RUN_CHARACTERS: Final = 12
T = TypeVar("T")


async def create_pod(api: ApiClient, body: dict[str, Any]) -> str:
    """Create a check pod; return its UID.

    If the response is lost, the pod may exist. In this case, a second request with the same name fails, and the
    annotation of the existing pod identifies the run that created it. If a kubelet uses the name for a static pod, the
    check pod gets a different name.

    Args:
        api: an open client.
        body: the pod; the function may change its name.

    Raises:
        ApiError: the API server rejected the pod or did not respond, or a pod from another run has the same name.
    """
    metadata = body["metadata"]
    collection = build_collection_path("v1", "pods", metadata["namespace"])
    run = metadata["annotations"][RUN_ANNOTATION]
    own = f"{metadata['name']}-{run[:_RUN_CHARACTERS]}"

    async def create() -> str:
        try:
            answer = await api.post(collection, body)
        except ApiError as exc:
            if not exc.already_exists:
                raise
            answer = await api.get(build_object_path(collection, metadata["name"]))
            found = msgspec.json.decode(answer, type=CheckPod)
            if found.mirror and metadata["name"] != own:
                # A kubelet may use any name for a mirror pod, but it cannot predict the ID of a run.
                metadata["name"] = own
                return await create()
            if found.run != run:
                raise
        return msgspec.json.decode(answer, type=CheckPod).metadata.uid

    return await _try_again(create)


async def delete_own(api: ApiClient, path: str, run: str) -> None:
    """Delete the pod of a run, but not a pod from another run with the same name.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """

    async def delete() -> None:
        found = await get_if_present(api, path)
        if found is not None and (pod := msgspec.json.decode(found, type=CheckPod)).run == run:
            await _delete(api, path, pod.metadata.uid)

    await _try_again(delete)


async def delete_all(api: ApiClient, namespace: str) -> int:
    """Delete all check pods in a namespace, and wait until the pods are deleted; return the number of deleted pods.

    Raises:
        ApiError: the API server rejected the request or did not respond.
        ServiceError: some pods still exist.
    """
    collection = build_collection_path("v1", "pods", namespace)
    deadline = time.monotonic() + _GONE_SECONDS
    deleted = set[str]()
    while True:
        pods = await _list(api, collection)
        if not pods:
            return len(deleted)
        for pod in pods:
            if pod.metadata.uid not in deleted:
                await _delete(api, build_object_path(collection, pod.metadata.name), pod.metadata.uid)
                deleted.add(pod.metadata.uid)
        if time.monotonic() > deadline:
            names = ", ".join(sorted(pod.metadata.name for pod in pods)[:5])
            raise ServiceError(
                f"cannot delete the check pods {names} in {namespace}: they still exist after {_GONE_SECONDS:.0f} s",
                next_step=f"check `kubectl --namespace {namespace} describe pod`, and the kubelets of their nodes",
            )
        await asyncio.sleep(POLL_SECONDS)


async def count_pods(api: ApiClient, namespace: str) -> int:
    """Return the number of check pods in a namespace.

    Raises:
        ApiError: the API server rejected the request or did not respond.
    """
    collection = build_collection_path("v1", "pods", namespace)
    return len(await _list(api, collection))


async def _list(api: ApiClient, collection: str) -> list[CheckPod]:
    # Mirror pods are excluded, because the API server cannot delete them.
    found, _ = await list_all(api, collection, CheckPod, query={"labelSelector": SELECTOR})
    return [pod for pod in found if not pod.mirror]


async def _delete(api: ApiClient, path: str, uid: str) -> None:
    try:
        await api.delete(path, {"preconditions": {"uid": uid}} if uid else None)
    except ApiError as exc:
        # The pod no longer exists, or another pod now has the same name.
        if not exc.not_found and not exc.conflict:
            raise


async def _try_again(act: Callable[[], Awaitable[T]]) -> T:
    """Call a function until the API server responds, but at most three times."""
    for left in range(TRIES - 1, -1, -1):
        try:
            return await act()
        except ApiError as exc:
            if not exc.unanswered or not left:
                raise
        await asyncio.sleep(RETRY_SECONDS)
    raise AssertionError("the last attempt returns or raises")
