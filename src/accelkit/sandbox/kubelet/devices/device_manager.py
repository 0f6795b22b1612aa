"""The kubelet's device manager, which allocates devices to containers. Other modules implement its sockets.

For device plugins, it behaves like the device manager of a real kubelet:

* Containers first reuse the devices of earlier init containers that are not sidecars. A device can be reused until it
  is allocated to an app container or a sidecar. Only the pod of the latest allocation has reusable devices.
* The manager then chooses the free devices that the plugin prefers, and then any other free devices. The real manager
  chooses among equal devices in the order of a Go map. This manager uses the given random number generator.
* After a plugin disconnects, its devices remain part of the capacity. They are unhealthy, so they cannot be allocated.
  After the grace period, the manager removes the resource, and reports the removal exactly once.

There is one difference: a container fails if it requests an extended resource without a registered plugin. The real
manager starts the container without devices if the node's status does not contain the resource.

The caller must ensure that only one allocation runs at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from accelkit.errors import DevicePluginError
from accelkit.sandbox.kubelet.devices.device_values import (
    AllocateResponse,
    ContainerKind,
    DeviceRequest,
    NodeResources,
    PluginCalls,
    PluginDevice,
    PluginOptions,
    is_extended_resource_name,
)

__all__ = ["DeviceAllocation", "DeviceManager"]


@dataclass(frozen=True)
class DeviceAllocation:
    """The devices of one resource that are allocated to a container, and the plugin's response to the allocation."""

    device_ids: frozenset[str]
    response: AllocateResponse


@dataclass
class _Endpoint:
    options: PluginOptions
    calls: PluginCalls | None
    stopped_at: float | None = None


class DeviceManager:
    """All plugins, devices and allocations of one node.

    Args:
        clock: a monotonic clock in seconds.
        grace_seconds: the time before a resource without a plugin is removed.
        chance: the random number generator that chooses among equal free devices.
    """

    def __init__(self, *, clock: Callable[[], float], grace_seconds: float, chance: random.Random) -> None:
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._chance = chance
        self._endpoints: dict[str, _Endpoint] = {}
        self._devices: dict[str, dict[str, PluginDevice]] = {}
        self._healthy: dict[str, set[str]] = {}
        self._unhealthy: dict[str, set[str]] = {}
        self._allocated: dict[str, set[str]] = {}
        self._allocations: dict[str, dict[str, dict[str, DeviceAllocation]]] = {}
        # The UID of the pod with the latest allocation, and the reusable devices of its init containers, by resource.
        self._reusable: tuple[str | None, dict[str, set[str]]] = (None, {})

    def connect_plugin(self, resource: str, options: PluginOptions, calls: PluginCalls) -> None:
        """Add a registered plugin. The devices of the previous plugin remain until the new plugin sends its list."""
        self._endpoints[resource] = _Endpoint(options, calls)

    def update_devices(self, resource: str, devices: Iterable[PluginDevice]) -> None:
        """Replace the devices of a resource with the plugin's complete list."""
        listed = {device.id: device for device in devices}
        self._devices[resource] = listed
        self._healthy[resource] = {device.id for device in listed.values() if device.healthy}
        self._unhealthy[resource] = listed.keys() - self._healthy[resource]

    def disconnect_plugin(self, resource: str) -> None:
        """Mark the devices of a disconnected plugin as unhealthy, and start its grace period."""
        endpoint = self._endpoints.get(resource)
        if endpoint is None:
            return
        self._unhealthy.setdefault(resource, set()).update(self._healthy.get(resource, ()))
        if resource in self._healthy:
            self._healthy[resource] = set()
        endpoint.stopped_at = self._clock()

    def collect_resources(self) -> NodeResources:
        """Remove the resources whose grace period has expired; return the device counts for the node's status."""
        removed = frozenset(
            resource for resource in self._healthy.keys() | self._unhealthy.keys() if self._is_expired(resource)
        )
        for resource in removed:
            for table in (self._endpoints, self._healthy, self._unhealthy):
                table.pop(resource, None)
        allocatable = {resource: len(devices) for resource, devices in self._healthy.items()}
        capacity = {
            resource: len(self._healthy.get(resource, ())) + len(self._unhealthy.get(resource, ()))
            for resource in sorted(self._healthy.keys() | self._unhealthy.keys())
        }
        return NodeResources(capacity=capacity, allocatable=allocatable, removed=removed)

    def find_next_expiry(self) -> float | None:
        """Return the time at which `collect_resources` removes the next resource; None if all plugins are connected."""
        stops = [endpoint.stopped_at for endpoint in self._endpoints.values() if endpoint.stopped_at is not None]
        return min(stops) + self._grace_seconds if stops else None

    async def allocate(self, pod_uid: str, container: DeviceRequest) -> None:
        """Allocate the devices of a container. Call this method for the containers of a pod in their start order.

        If devices are already allocated to the container, the allocation does not change. A failed call does not change
        the allocation either.

        Raises:
            DevicePluginError: the allocation failed; the message is the same as that of a real kubelet.
        """
        if self._reusable[0] != pod_uid:
            self._reusable = (pod_uid, {})
        reusable = self._reusable[1]
        try:
            for resource, number in sorted(container.limits.items()):
                if self._is_known(resource):
                    await self._allocate(pod_uid, container, resource, number, reusable.get(resource, set()))
                elif number and is_extended_resource_name(resource):
                    raise DevicePluginError(f"cannot allocate unregistered device {resource}")
        finally:
            self._recompute()
        for resource, allocation in self.find_allocations(pod_uid, container.name).items():
            pool = reusable.setdefault(resource, set())
            if container.kind is ContainerKind.INIT:
                pool |= allocation.device_ids
            else:
                pool -= allocation.device_ids

    async def pre_start(self, pod_uid: str, container: str) -> None:
        """Call PreStartContainer on the plugins that require this call, before a container starts."""
        for resource, allocation in sorted(self.find_allocations(pod_uid, container).items()):
            endpoint = self._endpoints.get(resource)
            if endpoint is not None and endpoint.options.pre_start:
                await _require_calls(resource, endpoint).pre_start(sorted(allocation.device_ids))

    def release(self, pod_uid: str) -> None:
        """Release the devices of a pod."""
        self._allocations.pop(pod_uid, None)
        self._recompute()

    def restore(self, pod_uid: str, container: str, resource: str, allocation: DeviceAllocation) -> None:
        """Restore an allocation after a restart of the kubelet."""
        self._allocations.setdefault(pod_uid, {}).setdefault(container, {})[resource] = allocation
        self._recompute()

    def restore_resource(self, resource: str) -> None:
        """Restore a resource after a restart. It has no devices until its plugin registers."""
        self._healthy[resource], self._unhealthy[resource] = set(), set()
        self._endpoints[resource] = _Endpoint(PluginOptions(), None, stopped_at=self._clock())

    def list_allocations(self) -> list[tuple[str, str, str, DeviceAllocation]]:
        """Return all allocations, as tuples of pod UID, container, resource and devices."""
        return [
            (pod_uid, container, resource, allocation)
            for pod_uid, containers in self._allocations.items()
            for container, resources in containers.items()
            for resource, allocation in resources.items()
        ]

    def find_allocations(self, pod_uid: str, container: str) -> Mapping[str, DeviceAllocation]:
        """Return the allocations of a container, by resource."""
        return self._allocations.get(pod_uid, {}).get(container, {})

    def list_holders(self) -> frozenset[str]:
        """Return the UIDs of the pods that have allocated devices."""
        return frozenset(self._allocations)

    def find_device(self, resource: str, device_id: str) -> PluginDevice | None:
        """Return a device from the latest list of its plugin; None if the list does not contain it."""
        return self._devices.get(resource, {}).get(device_id)

    def list_healthy_devices(self) -> dict[str, list[PluginDevice]]:
        """Return the healthy devices of each resource, sorted by ID."""
        return {
            resource: [self._devices[resource][device_id] for device_id in sorted(ids)]
            for resource, ids in sorted(self._healthy.items())
        }

    async def _allocate(
        self, pod_uid: str, container: DeviceRequest, resource: str, required: int, reusable: set[str]
    ) -> None:
        allocation = self.find_allocations(pod_uid, container.name).get(resource)
        before = frozenset[str]() if allocation is None else allocation.device_ids
        if allocation is not None and len(before) != required:
            raise DevicePluginError(
                f'pod "{pod_uid}" container "{container.name}" changed request for resource "{resource}" '
                f"from {len(before)} to {required}"
            )
        self._check_health(resource, before)
        if allocation is not None or required == 0:
            return
        chosen = await self._choose(resource, required, reusable)
        endpoint = self._endpoints.get(resource)
        if endpoint is None:
            raise DevicePluginError(f"unknown Device Plugin {resource}")
        response = await _require_calls(resource, endpoint).allocate(sorted(chosen))
        self._allocations.setdefault(pod_uid, {}).setdefault(container.name, {})[resource] = DeviceAllocation(
            frozenset(chosen), response
        )

    def _check_health(self, resource: str, before: frozenset[str]) -> None:
        if resource not in self._healthy:
            raise DevicePluginError(f"cannot allocate unregistered device {resource}")
        if not self._healthy[resource]:
            raise DevicePluginError(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if not before <= self._healthy[resource]:
            raise DevicePluginError(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
            )

    async def _choose(self, resource: str, required: int, reusable: set[str]) -> set[str]:
        chosen = self._draw(reusable, required)
        if len(chosen) == required:
            return chosen
        in_use = self._allocated.get(resource, set()) | chosen
        available = self._healthy[resource] - in_use
        if len(available) < required - len(chosen):
            raise DevicePluginError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {required - len(chosen)}, Available: {len(available)}"
            )
        preferred = await self._read_preference(resource, available | chosen, chosen, required)
        chosen |= self._draw(preferred & available, required - len(chosen))
        chosen |= self._draw(available - chosen, required - len(chosen))
        return chosen

    async def _read_preference(self, resource: str, available: set[str], must_include: set[str], size: int) -> set[str]:
        endpoint = self._endpoints.get(resource)
        if endpoint is None:
            raise DevicePluginError(f"endpoint not found in cache for a registered resource: {resource}")
        if not endpoint.options.preferred:
            return set()
        calls = _require_calls(resource, endpoint)
        try:
            preferred = await calls.prefer(available=sorted(available), must_include=sorted(must_include), size=size)
        except DevicePluginError as exc:
            raise DevicePluginError(f"device plugin GetPreferredAllocation rpc failed with err: {exc}") from exc
        return set(preferred)

    def _draw(self, pool: set[str], number: int) -> set[str]:
        # Sort the IDs, so that the choice depends only on the seed and not on the order of the set.
        return set(self._chance.sample(sorted(pool), min(number, len(pool))))

    def _is_known(self, resource: str) -> bool:
        return resource in self._healthy or resource in self._allocated

    def _is_expired(self, resource: str) -> bool:
        endpoint = self._endpoints.get(resource)
        return endpoint is None or (
            endpoint.stopped_at is not None and self._clock() - endpoint.stopped_at >= self._grace_seconds
        )

    def _recompute(self) -> None:
        allocated: dict[str, set[str]] = {}
        for containers in self._allocations.values():
            for resources in containers.values():
                for resource, allocation in resources.items():
                    allocated.setdefault(resource, set()).update(allocation.device_ids)
        self._allocated = allocated


def _require_calls(resource: str, endpoint: _Endpoint) -> PluginCalls:
    if endpoint.calls is None or endpoint.stopped_at is not None:
        raise DevicePluginError(f"endpoint of {resource} has been stopped")
    return endpoint.calls
