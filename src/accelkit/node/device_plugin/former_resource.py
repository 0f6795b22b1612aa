"""Serves a resource of a former dialect to the kubelet: only the devices that containers still hold.

A kubelet forgets a resource some minutes after its plugin is gone. From then on it does not start a container again
that holds devices of the resource. So they stay listed until their pods end, and no other devices are.
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
    """Serves one resource of a former dialect.

    Args:
        root: the host's root folder.
        resource: the extended resource.
        whole: whether its devices are whole cards, or units of memory.
        pods: this node's pods with their assignments.
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
        """Whether the inventory says that the resource is withheld: as long as the kubelet lists devices of it."""
        return not self.withheld

    async def show(self, cards: Sequence[FoundCard], unit_bytes: int, in_use: Collection[str] = ()) -> None:  # noqa: ARG002 - a plugin's
        """Tell the kubelet of the devices that it lists as held, now and at each change."""
        try:
            held = list_held_devices(await list_pod_resources(self._root), self._resource)
        except DevicePluginError:
            # What is held is not taken back because a kubelet does not answer.
            return
        found = [each.card for each in cards]
        devices = build_held_list(found, (each for ids in held.values() for each in ids), whole=self._whole)
        async with self._changed:
            await self._send(devices)

    async def Allocate(self, request: api.AllocateRequest, context: Any) -> api.AllocateResponse:  # noqa: ARG002, N802 - gRPC's
        """Refuse: a device that is free again is not given to another pod."""
        await context.abort(
            grpc.StatusCode.FAILED_PRECONDITION,
            f"cannot allocate {self._resource}: the dialect is not in use any more. Ask for the resources in use.",
        )
        raise AssertionError

    def settle(self, answer: resources_api.ListPodResourcesResponse) -> HeldDevices:
        """Return what the kubelet shows as held of this resource; no answer of this plugin is under way."""
        return list_held_devices(answer, self._resource)


def make_former_resources(root: Path, dialect: Dialect, pods: AssignedPods) -> list[FormerResource]:
    """Return what serves the resources of all dialects but the one in use.

    Resources by which other device plugins give cards are left out: two plugins of one resource replace each other.
    """
    resources = list_device_resources(dialect)
    left_out = {dialect.resources.memory, dialect.resources.cards, *resources.doubtful}
    return [
        FormerResource(root, resource=resource, whole=whole, pods=pods)
        for whole, names in ((False, resources.memory), (True, resources.cards))
        for resource in names
        if resource not in left_out
    ]
