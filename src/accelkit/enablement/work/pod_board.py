"""Current state of all check pods of a run, from a list and a watch; changes wake the tasks that wait for a pod."""

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
class PodSnapshot:
    """The last observed state of a pod.

    Attributes:
        pod: the pod, or its last state before its deletion; None if it was never observed.
        gone: whether it was deleted.
        bound_with: the assignment when the pod was first observed with a node. The extender wrote this assignment,
            because it is written with the Binding. None if the pod does not have a node, or did not have an assignment
            at that time.
    """

    pod: CheckPod | None = None
    gone: bool = False
    bound_with: str | None = None


class PodBoard:
    """The current check pods of a namespace.

    Args:
        api: an open client.
        namespace: the namespace of the pods.
    """

    def __init__(self, api: ApiClient, namespace: str) -> None:
        self._snapshots: dict[str, PodSnapshot] = {}
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
        """List and watch the pods until cancelled."""
        await self._reflector.run()

    async def sync(self) -> bool:
        """Wait until the pods have been listed once; return False after a timeout."""
        try:
            async with asyncio.timeout(_SYNC_SECONDS):
                await self._reflector.synced.wait()
        except TimeoutError:
            return False
        return True

    async def wait(self, uid: str, accept: Callable[[PodSnapshot], bool], deadline: float) -> PodSnapshot:
        """Wait until the state of a pod is accepted; return the last state if the deadline is reached first.

        Args:
            uid: the UID of the pod.
            accept: a function that returns whether a state is accepted.
            deadline: the deadline, on the clock of `time.monotonic`.
        """
        event = self._changed.setdefault(uid, asyncio.Event())
        while True:
            event.clear()
            snapshot = self.find(uid)
            if accept(snapshot):
                return snapshot
            left = deadline - time.monotonic()
            if left <= 0:
                return snapshot
            try:
                async with asyncio.timeout(left):
                    await event.wait()
            except TimeoutError:
                return self.find(uid)

    def find(self, uid: str) -> PodSnapshot:
        """Return the last observed state of a pod."""
        return self._snapshots.get(uid, PodSnapshot())

    def _replace(self, pods: list[CheckPod]) -> None:
        listed = {pod.metadata.uid for pod in pods}
        for uid, snapshot in list(self._snapshots.items()):
            if uid not in listed and not snapshot.gone:
                self._store(uid, PodSnapshot(snapshot.pod, gone=True, bound_with=snapshot.bound_with))
        for pod in pods:
            self._take("MODIFIED", pod)

    def _take(self, kind: str, pod: CheckPod) -> None:
        uid = pod.metadata.uid
        before = self.find(uid)
        bound_with = before.bound_with
        if pod.spec.node_name and (before.pod is None or not before.pod.spec.node_name):
            bound_with = (pod.metadata.annotations or {}).get(ASSIGNMENT_ANNOTATION)
        self._store(uid, PodSnapshot(pod, gone=kind == "DELETED", bound_with=bound_with))

    def _store(self, uid: str, snapshot: PodSnapshot) -> None:
        self._snapshots[uid] = snapshot
        if event := self._changed.get(uid):
            event.set()
