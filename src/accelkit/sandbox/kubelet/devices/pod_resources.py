"""The kubelet's pod resources API, which lists the devices of each container.

Like the real API, it returns one entry for each device and NUMA node, never several devices in one entry. It omits init
containers that are not sidecars, and pods that have terminated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import grpc

from accelkit.node._proto import podresources_pb2 as pb
from accelkit.node._proto.podresources_pb2_grpc import (
    PodResourcesListerServicer,
    add_PodResourcesListerServicer_to_server,
)
from accelkit.sandbox.kubelet.devices.device_manager import DeviceManager
from accelkit.sandbox.kubelet.devices.device_plugins import check_socket_path
from accelkit.sandbox.kubelet.devices.device_values import PluginDevice
from accelkit.sandbox.kubelet.wire import Container, Pod

__all__ = ["PodResourcesServer"]

_SOCKET = "kubelet.sock"
_STOP_SECONDS = 1.0


class PodResourcesServer:
    """The pod resources service of one node.

    Args:
        folder: the node's `var/lib/kubelet/pod-resources`.
        manager: the device manager.
        active_pods: a function that returns the node's pods that have not terminated.
    """

    def __init__(self, folder: Path, manager: DeviceManager, *, active_pods: Callable[[], Iterable[Pod]]) -> None:
        self._folder = folder
        self._lister = _Lister(manager, active_pods)
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listen on `kubelet.sock`."""
        socket = self._folder / _SOCKET
        check_socket_path(socket)
        self._folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        self._server = grpc.aio.server()
        add_PodResourcesListerServicer_to_server(self._lister, self._server)
        self._server.add_insecure_port(f"unix:{socket}")
        await self._server.start()

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.stop(_STOP_SECONDS)


class _Lister(PodResourcesListerServicer):
    def __init__(self, manager: DeviceManager, active_pods: Callable[[], Iterable[Pod]]) -> None:
        self._manager = manager
        self._active_pods = active_pods

    async def List(  # noqa: N802 - the name in the interface
        self,
        request: pb.ListPodResourcesRequest,  # noqa: ARG002 - the interface has it
        context: grpc.aio.ServicerContext[Any, Any],  # noqa: ARG002 - the interface has it
    ) -> pb.ListPodResourcesResponse:
        return pb.ListPodResourcesResponse(pod_resources=[self._build_pod(pod) for pod in self._active_pods()])

    async def Get(  # noqa: N802 - the name in the interface
        self, request: pb.GetPodResourcesRequest, context: grpc.aio.ServicerContext[Any, Any]
    ) -> pb.GetPodResourcesResponse:
        for pod in self._active_pods():
            if (pod.metadata.name, pod.metadata.namespace) == (request.pod_name, request.pod_namespace):
                return pb.GetPodResourcesResponse(pod_resources=self._build_pod(pod))
        return await _abort_not_found(context, request)

    async def GetAllocatableResources(  # noqa: N802 - the name in the interface
        self,
        request: pb.AllocatableResourcesRequest,  # noqa: ARG002 - the interface has it
        context: grpc.aio.ServicerContext[Any, Any],  # noqa: ARG002 - the interface has it
    ) -> pb.AllocatableResourcesResponse:
        entries = [
            entry
            for resource, devices in self._manager.list_healthy_devices().items()
            for device in devices
            for entry in _iterate_entries(resource, device)
        ]
        return pb.AllocatableResourcesResponse(devices=entries)

    def _build_pod(self, pod: Pod) -> pb.PodResources:
        containers = [*(each for each in pod.spec.init_containers if each.sidecar), *pod.spec.containers]
        return pb.PodResources(
            name=pod.metadata.name,
            namespace=pod.metadata.namespace,
            containers=[self._build_container(pod, container) for container in containers],
        )

    def _build_container(self, pod: Pod, container: Container) -> pb.ContainerResources:
        allocations = self._manager.find_allocations(pod.metadata.uid, container.name)
        devices = [
            (resource, self._manager.find_device(resource, device_id) or PluginDevice(id=device_id))
            for resource, allocation in sorted(allocations.items())
            for device_id in sorted(allocation.device_ids)
        ]
        entries = [entry for resource, device in devices for entry in _iterate_entries(resource, device)]
        return pb.ContainerResources(name=container.name, devices=entries)


def _iterate_entries(resource: str, device: PluginDevice) -> Iterator[pb.ContainerDevices]:
    if not device.numa:
        yield pb.ContainerDevices(resource_name=resource, device_ids=[device.id])
    for node in device.numa:
        topology = pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)])
        yield pb.ContainerDevices(resource_name=resource, device_ids=[device.id], topology=topology)


async def _abort_not_found(context: grpc.aio.ServicerContext[Any, Any], request: pb.GetPodResourcesRequest) -> NoReturn:
    # Go's server returns UNKNOWN for an error without a code.
    await context.abort(
        grpc.StatusCode.UNKNOWN, f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
    )
    raise AssertionError
