"""Kubelets that ask device plugins: one of a test's own words, and one on its sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from accelkit.errors import DevicePluginError
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node._proto import deviceplugin_pb2_grpc as api_grpc
from accelkit.node._proto import podresources_pb2 as resources
from accelkit.node._proto import podresources_pb2_grpc as resources_grpc


def build_allocation(device_ids: Iterable[str]) -> api.AllocateRequest:
    """Return the request for these devices of one container."""
    return api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=device_ids)])


def build_preference(available: Iterable[str], size: int) -> api.PreferredAllocationRequest:
    """Return the question which of the free devices one container should get."""
    wanted = api.ContainerPreferredAllocationRequest(available_deviceIDs=available, allocation_size=size)
    return api.PreferredAllocationRequest(container_requests=[wanted])


class PluginPods:
    """The pods of a node, as device plugins read them; the list is always current."""

    def __init__(self) -> None:
        self.listed: list[Any] = []
        self.unassigned: set[str] = set()
        self.answers = True
        self.learned: Any = None
        self.node_cards: Any = None
        self.refreshed = 0

    def list_assigned(self) -> list[Any]:
        return self.listed

    def list_unassigned(self) -> frozenset[str]:
        return frozenset(self.unassigned)

    def set_cards(self, cards: object) -> None:
        self.learned = cards

    async def refresh(self) -> bool:
        """Return whether the API server answers."""
        self.refreshed += 1
        return self.answers


class PodResources:
    """What containers hold, as the kubelet reports it."""

    def __init__(self) -> None:
        self.answer = resources.ListPodResourcesResponse()
        self.reachable = True

    def hold(self, name: str, device_ids: Iterable[str], resource: str = "accelkit.io/memory") -> None:
        container = self.answer.pod_resources.add(name=name, namespace="d").containers.add(name="c")
        container.devices.add(resource_name=resource, device_ids=device_ids)

    async def list(self, _root: object) -> resources.ListPodResourcesResponse:
        if not self.reachable:
            raise DevicePluginError("no answer")
        return self.answer


class SocketKubelet(PodResources, api_grpc.RegistrationServicer, resources_grpc.PodResourcesListerServicer):
    """A kubelet that uses the real protocol.

    Attributes:
        registered: the registrations that it accepted.
        refuses: whether it refuses registrations.
    """

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root
        self.server = grpc.aio.server()
        self.registered: list[api.RegisterRequest] = []
        self.refuses = False

    async def Register(self, request: api.RegisterRequest, context: Any) -> api.Empty:  # noqa: N802 - gRPC's name
        if self.refuses:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no such version")
        # A kubelet connects to the plugin before it answers.
        async with self.dial(request.endpoint) as plugin:
            await plugin.GetDevicePluginOptions(api.Empty(), timeout=30)
        self.registered.append(request)
        return api.Empty()

    async def List(self, _request: object, _context: object) -> resources.ListPodResourcesResponse:  # noqa: N802 - the same
        return self.answer

    def find_endpoint(self, resource: str) -> str | None:
        return next((each.endpoint for each in self.registered if each.resource_name == resource), None)

    @asynccontextmanager
    async def dial(self, endpoint: str) -> AsyncIterator[Any]:
        async with grpc.aio.insecure_channel(f"unix:{self.root}/var/lib/kubelet/device-plugins/{endpoint}") as channel:
            yield api_grpc.DevicePluginStub(channel)

    async def list_devices(self, endpoint: str) -> dict[str, str]:
        """Return the health of each device that a plugin lists."""
        async with self.dial(endpoint) as plugin:
            sent = await plugin.ListAndWatch(api.Empty(), timeout=30).read()
        return {device.ID: device.health for device in sent.devices}


@asynccontextmanager
async def serve_kubelet() -> AsyncIterator[SocketKubelet]:
    """Serve a kubelet on the sockets of a host of its own."""
    # A socket's path may have 107 bytes, which pytest's folders fill.
    root = Path(tempfile.mkdtemp(prefix="ak-"))
    kubelet = SocketKubelet(root)  # type: ignore[abstract]  # nothing calls the rest
    api_grpc.add_RegistrationServicer_to_server(kubelet, kubelet.server)
    resources_grpc.add_PodResourcesListerServicer_to_server(kubelet, kubelet.server)
    for name in ("device-plugins", "pod-resources"):
        folder = root / "var/lib/kubelet" / name
        folder.mkdir(parents=True)
        kubelet.server.add_insecure_port(f"unix:{folder}/kubelet.sock")
    await kubelet.server.start()
    try:
        yield kubelet
    finally:
        await kubelet.server.stop(grace=0)
        shutil.rmtree(root)
