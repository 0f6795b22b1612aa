"""Fencing, which ensures that Bindings from the previous leader fail before the new leader assigns cards.

A Binding contains the resource version of its pod, and the API server compares the version in the transaction that
binds the pod. The new leader writes one annotation on each pod that waits for cards. The API server then rejects every
Binding from the previous leader, because each Binding contains an older version. If a Binding took effect before the
write, the response to the write contains the node of the pod, and the ledger includes the pod.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import msgspec

from accelkit.errors import ApiError, PodGoneError
from accelkit.extender.bindings import read_pod
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.nesting import decode
from accelkit.kube.paths import build_pod_path
from accelkit.ledger.feed import LedgerFeed
from accelkit.model.keys import FENCED_AT_ANNOTATION
from accelkit.model.pod import Pod, PodRef

log = logging.getLogger(__name__)

# Maximum number of concurrent writes.
_AT_ONCE: Final = 32
_PAUSE_SECONDS: Final = 0.5
# Maximum number of pods to fence. For more pods, it is faster to wait until no Binding from the previous leader can
# arrive.
MOST_PODS: Final = 4000

_pod = msgspec.json.Decoder(Pod)


class Fence:
    """Component that fences the pods that wait for cards each time this replica becomes the leader.

    Args:
        api: an open client.
        feed: the feed with the waiting pods.
        may_write: a function that returns whether this replica is still the leader.
        take: a function that applies a pod from an API server response.
        on_fenced: a function that is called when no Binding from the previous leader can take effect anymore.
    """

    def __init__(
        self,
        api: ApiClient,
        feed: LedgerFeed,
        *,
        may_write: Callable[[], bool],
        take: Callable[[PodRef, Pod], None],
        on_fenced: Callable[[], None],
    ) -> None:
        self._api, self._feed = api, feed
        self._may_write, self._take, self._on_fenced = may_write, take, on_fenced
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start to fence the pods that are currently waiting, and cancel any fencing in progress."""
        self.cancel()
        self._task = asyncio.create_task(self._run([each.pod.ref for each in self._feed.pending.values()]))

    def cancel(self) -> None:
        """Cancel any fencing in progress."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def fence_pod(self, pod: PodRef) -> Pod:
        """Fence one pod, and return it, so that no Binding that was already sent can take effect afterwards.

        Raises:
            PodGoneError: the pod no longer exists.
            ApiError: the API server rejected the write or did not respond.
        """
        return await self._write(pod, _format_now())

    async def _run(self, pods: list[PodRef]) -> None:
        if len(pods) > MOST_PODS:
            log.warning("fencing skipped pods=%d reason=too many waiting pods", len(pods))
            return
        left, now = iter(pods), _format_now()

        async def work() -> None:
            for pod in left:
                await self._fence(pod, now)

        workers = [asyncio.create_task(work()) for _ in range(min(_AT_ONCE, len(pods)))]
        try:
            await asyncio.gather(*workers)
        except ApiError as exc:
            log.warning("cannot fence the waiting pods: %s", exc)
        else:
            log.info("fenced waiting pods=%d", len(pods))
            self._on_fenced()
        finally:
            for each in workers:
                each.cancel()

    async def _fence(self, pod: PodRef, now: str) -> None:
        """Write the annotation on one pod, and retry until the API server responds.

        Raises:
            ApiError: the API server rejected the write, or this replica is no longer the leader.
        """
        while True:
            if not self._may_write():
                raise ApiError("this replica is no longer the leader")
            try:
                found = await self._write(pod, now)
            except PodGoneError:
                # A Binding cannot take effect after its pod was deleted.
                return
            except ApiError as exc:
                if not may_retry(exc):
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self._take(pod, found)
                return

    async def _write(self, pod: PodRef, now: str) -> Pod:
        patch = {"metadata": {"uid": pod.uid, "annotations": {FENCED_AT_ANNOTATION: now}}}
        try:
            return decode(_pod, await self._api.patch(build_pod_path(pod.namespace, pod.name), patch))
        except UNREADABLE as exc:
            raise ApiError(f"cannot read pod {pod}: {exc}", status=HTTPStatus.UNPROCESSABLE_ENTITY) from exc
        except ApiError as exc:
            if exc.not_found:
                raise PodGoneError(f"pod {pod} no longer exists") from exc
            if exc.conflict:
                # Either a new pod has the same name, which raises PodGoneError here, or the pod has changed too often;
                # then the caller tries again.
                await read_pod(self._api, pod)
            raise


def may_retry(failure: ApiError) -> bool:
    """Return whether fencing a pod may succeed later; False if the API server has rejected the write."""
    temporary = failure.unanswered or failure.conflict or failure.status == HTTPStatus.TOO_MANY_REQUESTS
    return temporary and not failure.forbidden


def _format_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
