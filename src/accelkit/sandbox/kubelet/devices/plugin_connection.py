"""A connection to a device plugin through the v1beta1 API. Failures are raised as DevicePluginError."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Sequence
from pathlib import Path
from typing import TypeVar

import grpc

from accelkit.errors import DevicePluginError
from accelkit.node._proto import deviceplugin_pb2 as pb
from accelkit.node._proto.deviceplugin_pb2_grpc import DevicePluginStub
from accelkit.sandbox.kubelet.devices.device_values import AllocateResponse, PluginDevice, PluginMount, PluginOptions

__all__ = ["PluginConnection", "build_response", "read_response"]

Answer = TypeVar("Answer")

_HEALTHY = "Healthy"
_CONNECT_SECONDS = 10.0
# The timeout of Allocate and GetPreferredAllocation. A real kubelet has no timeout, but a plugin that hangs must not
# block the sandbox.
_ALLOCATE_SECONDS = 60.0
_PREFERRED_SECONDS = 30.0
_PRE_START_SECONDS = 30.0


class PluginConnection:
    """A gRPC channel to the socket of a plugin, with the default limit of 4,194,304 bytes for received messages."""

    def __init__(self, resource: str, socket: Path) -> None:
        self.resource = resource
        self._socket = socket
        # gRPC servers in Go reject a path as the authority.
        options = [("grpc.default_authority", "localhost")]
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=options)
        self._plugin = DevicePluginStub(self._channel)

    async def connect(self) -> PluginOptions:
        """Connect to the plugin and return its options."""
        call = self._plugin.GetDevicePluginOptions(pb.Empty(), timeout=_CONNECT_SECONDS, wait_for_ready=True)
        try:
            options = await _await_answer(call)
        except DevicePluginError as exc:
            raise DevicePluginError(f"failed to dial device plugin: {self._socket}: {exc}") from exc
        return PluginOptions(preferred=options.get_preferred_allocation_available, pre_start=options.pre_start_required)

    async def follow_devices(self) -> AsyncIterator[list[PluginDevice]]:
        """Yield each complete list of devices that the plugin sends; raise DevicePluginError when the stream ends."""
        try:
            async for response in self._plugin.ListAndWatch(pb.Empty()):
                yield [_read_device(device) for device in response.devices]
        except grpc.aio.AioRpcError as exc:
            raise _convert_error(exc) from exc
        raise DevicePluginError("EOF")

    async def prefer(self, *, available: Sequence[str], must_include: Sequence[str], size: int) -> Sequence[str]:
        """Call GetPreferredAllocation for one container."""
        container = pb.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        request = pb.PreferredAllocationRequest(container_requests=[container])
        response = await _await_answer(self._plugin.GetPreferredAllocation(request, timeout=_PREFERRED_SECONDS))
        return list(response.container_responses[0].deviceIDs) if response.container_responses else []

    async def allocate(self, device_ids: Sequence[str]) -> AllocateResponse:
        """Call Allocate for one container."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=device_ids)])
        response = await _await_answer(self._plugin.Allocate(request, timeout=_ALLOCATE_SECONDS))
        if not response.container_responses:
            raise DevicePluginError("no containers return in allocation response")
        return read_response(response.container_responses[0])

    async def pre_start(self, device_ids: Sequence[str]) -> None:
        """Call PreStartContainer for one container."""
        request = pb.PreStartContainerRequest(devices_ids=device_ids)
        try:
            await _await_answer(self._plugin.PreStartContainer(request, timeout=_PRE_START_SECONDS))
        except DevicePluginError as exc:
            raise DevicePluginError(f"device plugin PreStartContainer rpc failed with err: {exc}") from exc

    async def close(self) -> None:
        """Close the channel, which ends the plugin's stream."""
        await self._channel.close()


def read_response(response: pb.ContainerAllocateResponse) -> AllocateResponse:
    """Convert a plugin's response for one container from the protobuf message."""
    return AllocateResponse(
        environment=dict(response.envs),
        devices=tuple(device.host_path for device in response.devices),
        mounts=tuple(
            PluginMount(container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only)
            for mount in response.mounts
        ),
        annotations=dict(response.annotations),
        cdi_devices=tuple(device.name for device in response.cdi_devices),
    )


def build_response(response: AllocateResponse) -> pb.ContainerAllocateResponse:
    """Convert a response to the protobuf message that is stored in the kubelet's checkpoint."""
    return pb.ContainerAllocateResponse(
        envs=response.environment,
        devices=[pb.DeviceSpec(host_path=path, container_path=path) for path in response.devices],
        mounts=[
            pb.Mount(container_path=mount.container_path, host_path=mount.host_path, read_only=mount.read_only)
            for mount in response.mounts
        ],
        annotations=response.annotations,
        cdi_devices=[pb.CDIDevice(name=name) for name in response.cdi_devices],
    )


def _read_device(device: pb.Device) -> PluginDevice:
    numa = tuple(node.ID for node in device.topology.nodes)
    return PluginDevice(id=device.ID, healthy=device.health == _HEALTHY, numa=numa)


async def _await_answer(call: Awaitable[Answer]) -> Answer:
    try:
        return await call
    except grpc.aio.AioRpcError as exc:
        raise _convert_error(exc) from exc


def _convert_error(exc: grpc.aio.AioRpcError) -> DevicePluginError:
    # Use the format of errors from Go's gRPC, because users search for these messages.
    code = exc.code().name.title().replace("_", "").replace("Cancelled", "Canceled")
    return DevicePluginError(f"rpc error: code = {code} desc = {exc.details()}")
