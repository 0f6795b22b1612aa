"""The kubelet's device manager, without its sockets: which container gets which devices.

It keeps the real one's habits, since a device plugin has to live with them:

* Devices of a plain init container are offered first to the containers after it, until an app container or a
  sidecar takes them. Only the pod allocated last has such devices.
* Then come those the plugin prefers, of the free ones; then any free ones. "Any" is the map order of Go in the
  real one and the injected generator here.
* A plugin that goes away leaves its devices behind, all unhealthy: capacity stays and nothing can be allocated. After
  the grace period the resource is gone and is reported as removed exactly once.

On one point it is stricter: a container that asks for an extended resource no plugin has registered fails, where the
real one admits it without devices if its node's status does not name the resource.

One allocation runs at a time; the caller sees to that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from accelkit.errors import DevicePluginError
from accelkit.sandbox.kubelet.devices.device_values import (
    ContainerAsk,
    ContainerKind,
    Device,
    Grant,
    NodeResources,
    PluginCalls,
    PluginOptions,
    is_extended_resource_name,
)

__all__ = ["DeviceManager", "Held"]


@dataclass(frozen=True)
class Held:
    """The devices of one resource that a container holds, and what the plugin gave with them."""

    device_ids: frozenset[str]
    grant: Grant


@dataclass
class _Endpoint:
    options: PluginOptions
    calls: PluginCalls | None
    stopped_at: float | None = None


class DeviceManager:
    """All plugins, devices and allocations of one node.

    Args:
        clock: seconds that only grow.
        grace_seconds: for how long a resource outlives its plugin.
        chance: chooses among free devices where nothing else does.
    """

    def __init__(self, *, clock: Callable[[], float], grace_seconds: float, chance: random.Random) -> None:
        self._clock = clock
        self._grace_seconds = grace_seconds
        self._chance = chance
        self._endpoints: dict[str, _Endpoint] = {}
        self._devices: dict[str, dict[str, Device]] = {}
        self._healthy: dict[str, set[str]] = {}
        self._unhealthy: dict[str, set[str]] = {}
        self._allocated: dict[str, set[str]] = {}
        self._held: dict[str, dict[str, dict[str, Held]]] = {}
        self._reusable: tuple[str, dict[str, set[str]]] = ("", {})

    def plugin_connected(self, resource: str, options: PluginOptions, calls: PluginCalls) -> None:
        """A plugin registered; it replaces an earlier one, whose devices stay until the new one lists its own."""
        self._endpoints[resource] = _Endpoint(options, calls)

    def devices_listed(self, resource: str, devices: Iterable[Device]) -> None:
        """The plugin sent its whole list of devices."""
        listed = {device.id: device for device in devices}
        self._devices[resource] = listed
        self._healthy[resource] = {device.id for device in listed.values() if device.healthy}
        self._unhealthy[resource] = listed.keys() - self._healthy[resource]

    def plugin_disconnected(self, resource: str) -> None:
        """The plugin's stream ended: its devices are unhealthy from now on, and its grace period starts."""
        endpoint = self._endpoints.get(resource)
        if endpoint is None:
            return
        self._unhealthy.setdefault(resource, set()).update(self._healthy.get(resource, ()))
        if resource in self._healthy:
            self._healthy[resource] = set()
        endpoint.stopped_at = self._clock()

    def resources(self) -> NodeResources:
        """The numbers for the node's status; forgets the resources whose grace period is over."""
        removed = frozenset(
            resource for resource in self._healthy.keys() | self._unhealthy.keys() if self._expired(resource)
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

    def next_expiry(self) -> float | None:
        """When, on the clock, `resources` will next forget one; None while all plugins are there."""
        stops = [endpoint.stopped_at for endpoint in self._endpoints.values() if endpoint.stopped_at is not None]
        return min(stops) + self._grace_seconds if stops else None

    async def allocate(self, pod_uid: str, container: ContainerAsk) -> None:
        """Gives a container its devices; the containers of a pod come in the order in which they start.

        A container that has them keeps them. On failure nothing changes for this container.

        Raises:
            DevicePluginError: with the real kubelet's words.
        """
        if self._reusable[0] != pod_uid:
            self._reusable = (pod_uid, {})
        reusable = self._reusable[1]
        try:
            for resource, number in sorted(container.limits.items()):
                if self._known(resource):
                    await self._allocate(pod_uid, container, resource, number, reusable.get(resource, set()))
                elif number and is_extended_resource_name(resource):
                    raise DevicePluginError(f"cannot allocate unregistered device {resource}")
        finally:
            self._recompute()
        for resource, held in self.held(pod_uid, container.name).items():
            pool = reusable.setdefault(resource, set())
            if container.kind is ContainerKind.INIT:
                pool |= held.device_ids
            else:
                pool -= held.device_ids

    async def pre_start(self, pod_uid: str, container: str) -> None:
        """Tells the plugins that asked for it that a container is about to start."""
        for resource, held in sorted(self.held(pod_uid, container).items()):
            endpoint = self._endpoints.get(resource)
            if endpoint is not None and endpoint.options.pre_start:
                await _calls(resource, endpoint).pre_start(sorted(held.device_ids))

    def release(self, pod_uid: str) -> None:
        """Frees all devices of a pod; a pod that holds none is fine."""
        self._held.pop(pod_uid, None)
        self._recompute()

    def restore(self, pod_uid: str, container: str, resource: str, held: Held) -> None:
        """Takes over what a container holds since before a restart of the kubelet."""
        self._held.setdefault(pod_uid, {}).setdefault(container, {})[resource] = held
        self._recompute()

    def restore_resource(self, resource: str) -> None:
        """Takes over a resource from before a restart: without devices until its plugin comes back in time."""
        self._healthy[resource], self._unhealthy[resource] = set(), set()
        self._endpoints[resource] = _Endpoint(PluginOptions(), None, stopped_at=self._clock())

    def allocations(self) -> list[tuple[str, str, str, Held]]:
        """All that is held, as pod UID, container, resource and devices."""
        return [
            (pod_uid, container, resource, held)
            for pod_uid, containers in self._held.items()
            for container, resources in containers.items()
            for resource, held in resources.items()
        ]

    def held(self, pod_uid: str, container: str) -> Mapping[str, Held]:
        """What a container holds, by resource."""
        return self._held.get(pod_uid, {}).get(container, {})

    def holders(self) -> frozenset[str]:
        """The UIDs of the pods that hold devices."""
        return frozenset(self._held)

    def allocated(self, resource: str) -> frozenset[str]:
        """The devices of a resource that pods hold."""
        return frozenset(self._allocated.get(resource, ()))

    def device(self, resource: str, device_id: str) -> Device | None:
        """A device as its plugin listed it last."""
        return self._devices.get(resource, {}).get(device_id)

    def healthy_devices(self) -> dict[str, list[Device]]:
        """The healthy devices of each resource, sorted by id."""
        return {
            resource: [self._devices[resource][device_id] for device_id in sorted(ids)]
            for resource, ids in sorted(self._healthy.items())
        }

    async def _allocate(
        self, pod_uid: str, container: ContainerAsk, resource: str, required: int, reusable: set[str]
    ) -> None:
        held = self.held(pod_uid, container.name).get(resource)
        before = frozenset[str]() if held is None else held.device_ids
        if held is not None and len(before) != required:
            raise DevicePluginError(
                f'pod "{pod_uid}" container "{container.name}" changed request for resource "{resource}" '
                f"from {len(before)} to {required}"
            )
        self._check_health(resource, before)
        if held is not None or required == 0:
            return
        chosen = await self._choose(resource, required, reusable)
        endpoint = self._endpoints.get(resource)
        if endpoint is None:
            raise DevicePluginError(f"unknown Device Plugin {resource}")
        grant = await _calls(resource, endpoint).allocate(sorted(chosen))
        self._held.setdefault(pod_uid, {}).setdefault(container.name, {})[resource] = Held(frozenset(chosen), grant)

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
        chosen = self._some(reusable, required)
        if len(chosen) == required:
            return chosen
        in_use = self._allocated.get(resource, set()) | chosen
        available = self._healthy[resource] - in_use
        if len(available) < required - len(chosen):
            raise DevicePluginError(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {required - len(chosen)}, Available: {len(available)}"
            )
        preferred = await self._preferred(resource, available | chosen, chosen, required)
        chosen |= self._some(preferred & available, required - len(chosen))
        chosen |= self._some(available - chosen, required - len(chosen))
        return chosen

    async def _preferred(self, resource: str, available: set[str], must_include: set[str], size: int) -> set[str]:
        endpoint = self._endpoints.get(resource)
        if endpoint is None:
            raise DevicePluginError(f"endpoint not found in cache for a registered resource: {resource}")
        if not endpoint.options.preferred:
            return set()
        calls = _calls(resource, endpoint)
        try:
            answer = await calls.preferred(available=sorted(available), must_include=sorted(must_include), size=size)
        except DevicePluginError as exc:
            raise DevicePluginError(f"device plugin GetPreferredAllocation rpc failed with err: {exc}") from exc
        return set(answer)

    def _some(self, pool: set[str], number: int) -> set[str]:
        # Sorted, so that the same seed makes the same choice whatever the order of the set.
        return set(self._chance.sample(sorted(pool), min(number, len(pool))))

    def _known(self, resource: str) -> bool:
        return resource in self._healthy or resource in self._allocated

    def _expired(self, resource: str) -> bool:
        endpoint = self._endpoints.get(resource)
        return endpoint is None or (
            endpoint.stopped_at is not None and self._clock() - endpoint.stopped_at >= self._grace_seconds
        )

    def _recompute(self) -> None:
        allocated: dict[str, set[str]] = {}
        for containers in self._held.values():
            for resources in containers.values():
                for resource, held in resources.items():
                    allocated.setdefault(resource, set()).update(held.device_ids)
        self._allocated = allocated


def _calls(resource: str, endpoint: _Endpoint) -> PluginCalls:
    if endpoint.calls is None or endpoint.stopped_at is not None:
        raise DevicePluginError(f"endpoint of {resource} has been stopped")
    return endpoint.calls
