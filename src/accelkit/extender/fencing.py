"""Makes Bindings of the former leader fail before the new one gives cards away.

A Binding carries the resource version of its pod, which the API server compares in the transaction that binds. So the
new leader writes one annotation on each pod that waits for cards. A Binding that the former leader sent, or sends when
it wakes up, names an older version and is refused. Where it took effect before, the answer to the write shows that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

import msgspec

from accelkit.errors import ApiError, PodGoneError
from accelkit.extender.bindings import read_pod
from accelkit.kube.client import ApiClient
from accelkit.kube.listing import UNREADABLE
from accelkit.kube.paths import build_pod_path
from accelkit.ledger.feed import LedgerFeed
from accelkit.model.pod import FENCED_AT_ANNOTATION, Pod, PodRef

log = logging.getLogger(__name__)

# So many at once.
_AT_ONCE: Final = 32
_PAUSE_SECONDS: Final = 0.5
# Of more, fencing takes longer than waiting until no Binding of the former leader can arrive.
MOST_PODS: Final = 4000

_pod = msgspec.json.Decoder(Pod)


class Fence:
    """Fences the pods that wait for cards, each time that this replica begins to lead.

    Args:
        api: an open client.
        feed: knows the pods that wait.
        may_write: returns whether this replica still leads.
        take: takes over a pod as the API server answers it.
        on_fenced: called when no Binding of the former leader can take effect any more.
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
        """Begin to fence the pods that wait now; what was begun before is given up."""
        self.cancel()
        self._task = asyncio.create_task(self._run([each.pod.ref for each in self._feed.pending.values()]))

    def cancel(self) -> None:
        """Give up what was begun."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self, pods: list[PodRef]) -> None:
        if len(pods) > MOST_PODS:
            log.warning("%d pods wait for cards: fencing them takes longer than waiting", len(pods))
            return
        annotations = {FENCED_AT_ANNOTATION: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
        left = iter(pods)

        async def work() -> None:
            for pod in left:
                await self._fence(pod, annotations)

        workers = [asyncio.create_task(work()) for _ in range(min(_AT_ONCE, len(pods)))]
        try:
            await asyncio.gather(*workers)
        except ApiError as exc:
            log.warning("pods that wait for cards cannot be fenced: %s", exc)
        else:
            log.info("fenced %d pods that wait for cards", len(pods))
            self._on_fenced()
        finally:
            for each in workers:
                each.cancel()

    async def _fence(self, pod: PodRef, annotations: Mapping[str, str]) -> None:
        """Write the annotation until that is answered.

        Raises:
            ApiError: the API server refused, or this replica leads no longer.
        """
        patch = {"metadata": {"uid": pod.uid, "annotations": annotations}}
        while True:
            if not self._may_write():
                raise ApiError("this replica leads no longer")
            try:
                found = await self._write(pod, patch)
            except PodGoneError:
                # No Binding of it can take effect.
                return
            except ApiError as exc:
                if exc.forbidden or not (exc.unanswered or exc.conflict or exc.status == HTTPStatus.TOO_MANY_REQUESTS):
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                self._take(pod, found)
                return

    async def _write(self, pod: PodRef, patch: Mapping[str, object]) -> Pod:
        try:
            return _pod.decode(await self._api.patch(build_pod_path(pod.namespace, pod.name), patch))
        except UNREADABLE as exc:
            raise ApiError(f"pod {pod} cannot be read: {exc}", status=HTTPStatus.UNPROCESSABLE_ENTITY) from exc
        except ApiError as exc:
            if exc.not_found:
                raise PodGoneError(f"pod {pod} does not exist any more") from exc
            if exc.conflict:
                # Another pod has its name, or it changed too often; the latter is tried again.
                await read_pod(self._api, pod)
            raise
