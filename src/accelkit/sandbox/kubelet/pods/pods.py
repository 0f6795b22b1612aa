"""The pods that are bound to one node. They are admitted one at a time. Pods that terminate release their devices.

Pods are admitted in order of arrival. Pods from the same list response are ordered by age, then by name. If the devices
of a pod cannot be allocated, the pod fails with the same reason and message as in a real kubelet. CPU and memory are
not checked.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from accelkit.errors import ApiError, DevicePluginError, QuantityError
from accelkit.kube.paths import PODS
from accelkit.kube.reflector import Reflector
from accelkit.model.units import parse_quantity
from accelkit.sandbox.kubelet.devices.checkpoint import save_checkpoint
from accelkit.sandbox.kubelet.devices.device_values import ContainerKind, DeviceRequest, is_extended_resource_name
from accelkit.sandbox.kubelet.pods.containers import NodeContext
from accelkit.sandbox.kubelet.pods.pod_status import build_failed_status, write_status
from accelkit.sandbox.kubelet.pods.pod_worker import PodWorker
from accelkit.sandbox.kubelet.wire import Container, Pod

__all__ = ["Pods", "read_container_requests"]

log = logging.getLogger(__name__)

_DELETE_RETRY_SECONDS = 1.0


class Pods:
    """All pods of a node.

    Args:
        node: the settings that the pods share.
        checkpoint: the file that preserves allocations across restarts.
    """

    def __init__(self, node: NodeContext, checkpoint: Path) -> None:
        self._node = node
        self._checkpoint = checkpoint
        self._known: dict[str, Pod] = {}
        self._workers: dict[str, PodWorker] = {}
        # UIDs of pods that have terminated on this node. Their final state may not have been written to the API server
        # yet.
        self._ended: set[str] = set()
        self._arrivals: asyncio.Queue[str] = asyncio.Queue()
        self._deletions: set[str] = set()
        self._group = asyncio.TaskGroup()

    def list_active(self) -> list[Pod]:
        """Return the pods that have not terminated, sorted by namespace and name."""
        pods = [pod for uid, pod in self._known.items() if not pod.terminal and uid not in self._ended]
        return sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))

    async def run(self) -> None:
        """Watch and run the node's pods until cancelled. Cancellation stops their processes."""
        reflector = Reflector(
            self._node.api,
            PODS,
            Pod,
            query={"fieldSelector": f"spec.nodeName={self._node.name}"},
            on_replace=self._replace,
            on_event=self._handle_event,
        )
        async with self._group:
            self._group.create_task(self._admit_all(), name="admission")
            await reflector.run()

    def _replace(self, pods: list[Pod]) -> None:
        listed = {pod.metadata.uid for pod in pods}
        for uid in (self._known.keys() | self._node.manager.list_holders()) - listed:
            self._vanish(uid)
        for pod in sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name)):
            self._update_pod(pod)

    def _handle_event(self, kind: str, pod: Pod) -> None:
        if kind == "DELETED":
            self._vanish(pod.metadata.uid)
        else:
            self._update_pod(pod)

    def _update_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        arrived = uid not in self._known
        self._known[uid] = pod
        if pod.terminal:
            self._free(uid)
        worker = self._workers.get(uid)
        if worker is not None:
            worker.update(pod)
        elif pod.metadata.deletion_timestamp is not None:
            self._delete(uid)
        elif arrived and not pod.terminal:
            self._arrivals.put_nowait(uid)

    def _vanish(self, uid: str) -> None:
        self._known.pop(uid, None)
        self._ended.discard(uid)
        self._free(uid)
        if (worker := self._workers.get(uid)) is not None:
            worker.mark_vanished()

    def _free(self, uid: str) -> None:
        if uid in self._node.manager.list_holders():
            self._node.manager.release(uid)
            save_checkpoint(self._checkpoint, self._node.manager)

    async def _admit_all(self) -> None:
        while True:
            uid = await self._arrivals.get()
            pod = self._known.get(uid)
            if pod is None or pod.terminal or pod.metadata.deletion_timestamp is not None:
                continue
            if uid in self._node.manager.list_holders() or await self._admit(pod):
                self._start(uid)

    async def _admit(self, pod: Pod) -> bool:
        """Allocate a pod's devices, or set its phase to Failed."""
        uid = pod.metadata.uid
        try:
            for request in read_container_requests(pod):
                await self._node.manager.allocate(uid, request)
        except (DevicePluginError, QuantityError) as exc:
            message = f"Allocate failed due to {exc}, which is unexpected"
            log.info("pod refused pod=%s reason=%s", pod.path, message)
            self._ended.add(uid)
            self._node.manager.release(uid)
            await write_status(self._node.api, pod, build_failed_status(message, now=self._node.now()))
            return False
        save_checkpoint(self._checkpoint, self._node.manager)
        return True

    def _start(self, uid: str) -> None:
        # The pod may have been deleted during admission.
        pod = self._known.get(uid)
        if pod is None or pod.terminal:
            self._free(uid)
            return
        worker = PodWorker(self._node, pod)
        worker.update(pod)
        self._workers[uid] = worker
        self._group.create_task(self._run_worker(uid, worker), name=pod.path)

    async def _run_worker(self, uid: str, worker: PodWorker) -> None:
        await worker.run()
        del self._workers[uid]
        self._free(uid)
        pod = self._known.get(uid)
        if pod is not None:
            self._ended.add(uid)
            if pod.metadata.deletion_timestamp is not None:
                self._delete(uid)

    def _delete(self, uid: str) -> None:
        if uid not in self._deletions:
            self._deletions.add(uid)
            self._group.create_task(self._delete_now(self._known[uid]))

    async def _delete_now(self, pod: Pod) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod.metadata.uid},
        }
        while pod.metadata.uid in self._known:
            try:
                await self._node.api.delete(pod.path, body)
            except ApiError as exc:
                if exc.not_found or exc.conflict:
                    break
                log.warning("pod not deleted pod=%s reason=%s", pod.path, exc)
                await asyncio.sleep(_DELETE_RETRY_SECONDS)
            else:
                break
        self._deletions.discard(pod.metadata.uid)


def read_container_requests(pod: Pod) -> list[DeviceRequest]:
    """Return the device requests of a pod's containers, in the order in which the kubelet admits the containers.

    Raises:
        QuantityError: a quantity cannot be read.
    """
    inits = [
        _read_container_request(each, ContainerKind.SIDECAR if each.sidecar else ContainerKind.INIT)
        for each in pod.spec.init_containers
    ]
    return [*inits, *(_read_container_request(each, ContainerKind.APP) for each in pod.spec.containers)]


def _read_container_request(container: Container, kind: ContainerKind) -> DeviceRequest:
    # The kubelet reads only limits, because the API server ensures that requests for extended resources equal the
    # limits.
    limits = {
        name: parse_quantity(amount)
        for name, amount in container.resources.limits.items()
        if is_extended_resource_name(name)
    }
    return DeviceRequest(name=container.name, kind=kind, limits=limits)
