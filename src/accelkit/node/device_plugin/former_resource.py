"""Device plugins for resources of former dialects, with only the devices that are still allocated to containers.

A kubelet removes a resource a few minutes after its plugin has stopped. After that, the kubelet does not restart a
container that has devices of the resource. Therefore, the plugin still lists these devices until their pods
terminate.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import grpc

from accelkit.errors import DevicePluginError
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node._proto import podresources_pb2 as resources_api
from accelkit.node.assigned_pod import AssignedPods
from accelkit.node.device_plugin.device_list import build_held_list
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation
from accelkit.node.discovery import FoundCard
from accelkit.node.kubelet import HeldDevices, list_held_devices, list_pod_resources
from accelkit.vendors.counted_dialects import list_device_resources
from accelkit.vendors.dialect import Dialect


class FormerResource(DevicePlugin):
    """Device plugin for one resource of a former dialect.

    Args:
        root: the host's root folder.
        resource: the extended resource.
        whole: whether its devices are whole cards, or units of memory.
        pods: the pods of this node with their assignments.
    """

    def __init__(self, root: Path, *, resource: str, whole: bool, pods: AssignedPods) -> None:
        super().__init__(
            root,
            resource=resource,
            whole=whole,
            pods=pods,
            allocations=PreferredAllocation(whole=whole),
            other=("", PreferredAllocation(whole=not whole)),
            steering=False,
            is_managed=lambda: False,
        )
        self.offered = False
        self.endpoint = f"accelkit-former-{resource.replace('/', '-')}.sock"

    @property
    def reported(self) -> bool:
        """Whether the inventory lists the resource as withheld. This is the case while its devices are allocated."""
        return not self.withheld

    async def advertise(self, cards: Sequence[FoundCard], unit_bytes: int, in_use: Collection[str] = ()) -> None:  # noqa: ARG002 - a plugin's
        """Send the kubelet the devices that it reports as allocated."""
        try:
            held = list_held_devices(await list_pod_resources(self._root), self._resource)
        except DevicePluginError:
            # Do not change the list, because the devices are still allocated while the kubelet does not respond.
            return
        found = [each.card for each in cards]
        devices = build_held_list(found, (each for ids in held.values() for each in ids), whole=self._whole)
        async with self._changed:
            await self._send(devices)

    async def Allocate(self, request: api.AllocateRequest, context: Any) -> api.AllocateResponse:  # noqa: ARG002, N802 - gRPC's
        """Reject all requests, because a released device of this resource must not be allocated to another pod."""
        await context.abort(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"cannot allocate {self._resource}: its dialect is no longer in use. Request the resources of the current "
            "dialect.",
        )
        raise AssertionError

    def settle(self, answer: resources_api.ListPodResourcesResponse) -> HeldDevices:
        """Return the devices of this resource that the kubelet reports as allocated. There are no pending responses."""
        return list_held_devices(answer, self._resource)


def make_former_resources(root: Path, dialect: Dialect, pods: AssignedPods) -> list[FormerResource]:
    """Return a plugin for each resource of all dialects except for the dialect in use.

    Resources that other device plugins also serve are omitted, because a plugin replaces another plugin for the same
    resource.
    """
    resources = list_device_resources(dialect)
    left_out = {dialect.resources.memory, dialect.resources.cards, *resources.ambiguous}
    return [
        FormerResource(root, resource=resource, whole=whole, pods=pods)
        for whole, names in ((False, resources.memory), (True, resources.cards))
        for resource in names
        if resource not in left_out
    ]
