"""Creates check pods, and deletes them: those of a run, and what a run that was killed has left."""

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

    An answer that is lost may be that of a pod that was created: asked again under the same name, the API server says
    that it is there, and the annotation says whose it is. Where a kubelet has taken the name, it gets another one.

    Args:
        api: an open client.
        body: the pod, whose name may be changed.

    Raises:
        ApiError: the API server refused it, or did not answer; a pod of another run has its name.
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
                # One node's kubelet may mirror any name; that of a run, nobody knows beforehand.
                metadata["name"] = own
                return await create()
            if found.run != run:
                raise
        return msgspec.json.decode(answer, type=CheckPod).metadata.uid

    return await _try_again(create)


async def delete_own(api: ApiClient, path: str, run: str) -> None:
    """Delete the pod that a run has created; one of another run, which has its name, stays.

    Raises:
        ApiError: the API server refused, or did not answer.
    """

    async def delete() -> None:
        found = await get_if_present(api, path)
        if found is not None and (pod := msgspec.json.decode(found, type=CheckPod)).run == run:
            await _delete(api, path, pod.metadata.uid)

    await _try_again(delete)


async def delete_all(api: ApiClient, namespace: str) -> int:
    """Delete all check pods of a namespace, and wait until they are gone; return how many there were.

    Raises:
        ApiError: the API server refused, or did not answer.
        ServiceError: some are there still.
    """
    collection = build_collection_path("v1", "pods", namespace)
    deadline = time.monotonic() + _GONE_SECONDS
    seen = set[str]()
    while True:
        pods = await _list(api, collection)
        if not pods:
            return len(seen)
        for pod in pods:
            if pod.metadata.uid not in seen:
                await _delete(api, build_object_path(collection, pod.metadata.name), pod.metadata.uid)
                seen.add(pod.metadata.uid)
        if time.monotonic() > deadline:
            names = ", ".join(sorted(pod.metadata.name for pod in pods)[:5])
            raise ServiceError(
                f"after {_GONE_SECONDS:.0f} s the check pods {names} in {namespace} are not gone",
                next_step=f"look at `kubectl --namespace {namespace} describe pod`, and at the kubelets of their nodes",
            )
        await asyncio.sleep(POLL_SECONDS)


async def count_pods(api: ApiClient, namespace: str) -> int:
    """Return how many check pods a namespace has.

    Raises:
        ApiError: the API server refused, or did not answer.
    """
    collection = build_collection_path("v1", "pods", namespace)
    return len(await _list(api, collection))


async def _list(api: ApiClient, collection: str) -> list[CheckPod]:
    # Those of a kubelet are none of ours, and would be waited for in vain.
    found, _ = await list_all(api, collection, CheckPod, query={"labelSelector": SELECTOR})
    return [pod for pod in found if not pod.mirror]


async def _delete(api: ApiClient, path: str, uid: str) -> None:
    try:
        await api.delete(path, {"preconditions": {"uid": uid}} if uid else None)
    except ApiError as exc:
        # Another one has the name by now, or none.
        if not exc.not_found and not exc.conflict:
            raise


async def _try_again(act: Callable[[], Awaitable[T]]) -> T:
    """Do something up to three times, as long as the API server does not answer."""
    for left in range(TRIES - 1, -1, -1):
        try:
            return await act()
        except ApiError as exc:
            if not exc.unanswered or not left:
                raise
        await asyncio.sleep(RETRY_SECONDS)
    raise AssertionError("the last try returns or raises")
