"""Where all check pods of a run are seen: one list and watch, and who waits for one of them is woken by its changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from accelkit.enablement.work.pods import SELECTOR, CheckPod
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_collection_path
from accelkit.kube.reflector import Reflector
from accelkit.model.keys import ASSIGNMENT_ANNOTATION

_SYNC_SECONDS: Final = 60.0


@dataclass(frozen=True)
class Sight:
    """What was last seen of a pod.

    Attributes:
        pod: as it is, or was before it went; None where it was never seen.
        gone: whether it is not there any more.
        bound_with: the assignment that it had when it was first seen with a node: the extender's, since it comes with
            the Binding. None where it had none then, or has no node.
    """

    pod: CheckPod | None = None
    gone: bool = False
    bound_with: str | None = None


class PodBoard:
    """The check pods of a namespace, as they change.

    Args:
        api: an open client.
        namespace: of the pods.
    """

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self._sights: dict[str, Sight] = {}
        self._changed: dict[str, asyncio.Event] = {}
        self._reflector = Reflector(
            api,
            build_collection_path("v1", "pods", namespace),
            CheckPod,
            query={"labelSelector": SELECTOR},
            on_replace=self._replace,
            on_event=self._take,
        )

    async def run(self) -> None:
        """List and watch until cancelled."""
        await self._reflector.run()

    async def sync(self) -> bool:
        """Wait until the pods have been listed once; False where the API server does not let us in time."""
        try:
            async with asyncio.timeout(_SYNC_SECONDS):
                await self._reflector.synced.wait()
        except TimeoutError:
            return False
        return True

    async def wait(self, uid: str, accept: Callable[[Sight], bool], deadline: float) -> Sight:
        """Wait until what is seen of a pod is accepted; at the deadline, return what was seen last.

        Args:
            uid: of the pod.
            accept: told each sight.
            deadline: on the clock of `time.monotonic`.
        """
        event = self._changed.setdefault(uid, asyncio.Event())
        while True:
            event.clear()
            sight = self.see(uid)
            if accept(sight):
                return sight
            left = deadline - time.monotonic()
            if left <= 0:
                return sight
            try:
                async with asyncio.timeout(left):
                    await event.wait()
            except TimeoutError:
                return self.see(uid)

    def see(self, uid: str) -> Sight:
        """Return what was last seen of a pod."""
        return self._sights.get(uid, Sight())

    def _replace(self, pods: list[CheckPod]) -> None:
        listed = {pod.metadata.uid for pod in pods}
        for uid, sight in list(self._sights.items()):
            if uid not in listed and not sight.gone:
                self._show(uid, Sight(sight.pod, gone=True, bound_with=sight.bound_with))
        for pod in pods:
            self._take("MODIFIED", pod)

    def _take(self, kind: str, pod: CheckPod) -> None:
        uid = pod.metadata.uid
        before = self.see(uid)
        bound_with = before.bound_with
        if pod.spec.node_name and (before.pod is None or not before.pod.spec.node_name):
            bound_with = (pod.metadata.annotations or {}).get(ASSIGNMENT_ANNOTATION)
        self._show(uid, Sight(pod, gone=kind == "DELETED", bound_with=bound_with))

    def _show(self, uid: str, sight: Sight) -> None:
        self._sights[uid] = sight
        if event := self._changed.get(uid):
            event.set()
