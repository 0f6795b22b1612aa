"""Calls to the kubelet: registration of a device plugin, and the pod resources API."""

from __future__ import annotations

from pathlib import Path

import grpc

from accelkit.errors import DevicePluginError
from accelkit.node._proto import deviceplugin_pb2 as plugin_api
from accelkit.node._proto import deviceplugin_pb2_grpc as plugin_grpc
from accelkit.node._proto import podresources_pb2 as resources_api
from accelkit.node._proto import podresources_pb2_grpc as resources_grpc

PLUGIN_FOLDER = Path("var/lib/kubelet/device-plugins")
KUBELET_SOCKET = PLUGIN_FOLDER / "kubelet.sock"
RESOURCES_SOCKET = Path("var/lib/kubelet/pod-resources/kubelet.sock")
# The kubelet's client uses gRPC's default limit, and disconnects a plugin whose list is longer.
MAX_MESSAGE_BYTES = 4 * 1024 * 1024

_REGISTER_SECONDS = 10.0
_LIST_SECONDS = 2.0
# The kubelet lists each device in a separate entry with its resource, so the response may exceed the default limit of
# gRPC.
_LIST_OPTIONS = (("grpc.max_receive_message_length", 32 * 1024 * 1024),)


# Device IDs, keyed by namespace, pod and container.
HeldDevices = dict[tuple[str, str, str], list[str]]


def list_held_devices(answer: resources_api.ListPodResourcesResponse, resource: str) -> HeldDevices:
    """Return the devices of one resource that are allocated to each container."""
    found: HeldDevices = {}
    for pod in answer.pod_resources:
        for container in pod.containers:
            ids = [i for group in container.devices if group.resource_name == resource for i in group.device_ids]
            if ids:
                found[pod.namespace, pod.name, container.name] = ids
    return found


async def register(root: Path, endpoint: str, resource: str, *, steering: bool = True) -> None:
    """Register a plugin.

    The plugin must already be serving, because the kubelet connects to it before responding to the registration.

    Raises:
        DevicePluginError: the kubelet rejected the registration or did not respond.
    """
    options = plugin_api.DevicePluginOptions(get_preferred_allocation_available=steering)
    request = plugin_api.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=resource, options=options)
    async with grpc.aio.insecure_channel(f"unix:{root / KUBELET_SOCKET}") as channel:
        try:
            await plugin_grpc.RegistrationStub(channel).Register(request, timeout=_REGISTER_SECONDS)
        except grpc.aio.AioRpcError as exc:
            raise DevicePluginError(f"cannot register {resource} with the kubelet: {exc.details()}") from exc


async def list_pod_resources(root: Path) -> resources_api.ListPodResourcesResponse:
    """Return the devices that are allocated to containers, from the kubelet's pod resources API.

    Raises:
        DevicePluginError: the kubelet did not respond, so the allocated devices are unknown.
    """
    async with grpc.aio.insecure_channel(f"unix:{root / RESOURCES_SOCKET}", options=_LIST_OPTIONS) as channel:
        try:
            stub = resources_grpc.PodResourcesListerStub(channel)
            return await stub.List(resources_api.ListPodResourcesRequest(), timeout=_LIST_SECONDS)
        except grpc.aio.AioRpcError as exc:
            raise DevicePluginError(f"cannot read the kubelet's pod resources: {exc.details()}") from exc
