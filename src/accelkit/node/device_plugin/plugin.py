"""Device plugin for one resource, which serves the kubelet's DevicePlugin API (v1beta1) on one socket."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import grpc

from accelkit.errors import DevicePluginError
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node._proto import deviceplugin_pb2_grpc as api_grpc
from accelkit.node._proto import podresources_pb2 as resources_api
from accelkit.node.assigned_pod import AssignedPod, AssignedPods, Key
from accelkit.node.device_plugin.allocation_log import AllocationLog
from accelkit.node.device_plugin.capacity_check import (
    ContainerHolding,
    check_capacity,
    compute_device_bytes,
    list_holdings,
)
from accelkit.node.device_plugin.container_response import build_container_response, build_dialect_environment
from accelkit.node.device_plugin.device_list import HEALTHY, build_device_list
from accelkit.node.device_plugin.other_dialects import HeldByOthers, observe_others, read_others
from accelkit.node.device_plugin.pending_allocations import Devices, list_assigned_cards
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation, check_exclusive
from accelkit.node.devices import DeviceIds
from accelkit.node.discovery import FoundCard
from accelkit.node.enforcement.mps import DEFAULT_MPS, MpsFolders
from accelkit.node.kubelet import PLUGIN_FOLDER, HeldDevices, list_held_devices, list_pod_resources, register
from accelkit.vendors.counted_dialects import NO_RESOURCES, DeviceResources

log = logging.getLogger(__name__)

_RESEND_SECONDS, _DELIVERY_SECONDS = 1.0, 3.0


@dataclass(frozen=True, slots=True)
class _Observed:
    """Snapshot of the devices that are allocated to containers.

    Attributes:
        held: the number of devices of this resource, by container and card.
        others: the cards that are allocated through the other resource, each with its pod; None if the pod is unknown.
        holdings: the devices of this resource by container, with their memory.
        dialects: the cards that are allocated through resources of dialects that are not served.
    """

    held: Mapping[Key, Devices]
    others: Mapping[str, str | None]
    holdings: Sequence[ContainerHolding]
    dialects: HeldByOthers


class DevicePlugin(api_grpc.DevicePluginServicer):
    """Device plugin that serves one resource to the kubelet.

    Args:
        root: the host's root folder.
        resource: the extended resource.
        whole: whether its devices are whole cards, or units of memory.
        pods: the pods of this node with their assignments.
        allocations: the pending responses of this resource.
        other: the name of the other resource, and its pending responses.
        steering: whether the plugin offers preferred devices to the kubelet.
        on_allocate: called after each allocation.
        count: called with the result of each allocation, `granted` or `refused`.
        environment: the dialect's environment variables for a container, in addition to the vendor's variables.
        mps: the folders of NVIDIA's MPS control daemon.
        is_managed: returns whether, according to the record of managed resources, kube-scheduler calls the extender for
            the resource.
        counted: the resources of all dialects through which accelkit's devices may be allocated.
    """

    def __init__(
        self,
        root: Path,
        *,
        resource: str,
        whole: bool,
        pods: AssignedPods,
        allocations: PreferredAllocation,
        other: tuple[str, PreferredAllocation],
        steering: bool = True,
        on_allocate: Callable[[], None] = lambda: None,
        count: Callable[[str], None] = lambda _result: None,
        environment: Mapping[str, str] = MappingProxyType({}),
        mps: MpsFolders = DEFAULT_MPS,
        is_managed: Callable[[], bool] = lambda: True,
        counted: DeviceResources = NO_RESOURCES,
    ) -> None:
        self._is_managed = is_managed
        # Whether new pods may get devices, according to the list that was last sent to the kubelet.
        self.offered = True
        self._counted = counted
        self._environment = environment
        self._mps = mps
        self._root = root
        self.resource = self._resource = resource
        self._whole = whole
        self._pods = pods
        self._allocations = allocations
        self._other_resource, self._other = other
        self._steering = steering
        self._on_allocate = on_allocate
        self._count = count
        self._cards: Sequence[FoundCard] = ()
        self._devices = api.ListAndWatchResponse()
        self._changed = asyncio.Condition()
        self._sent: api.ListAndWatchResponse | None = None
        self._streams = 0
        self._log = AllocationLog(resource)
        self._server: grpc.aio.Server | None = None
        self.endpoint = f"accelkit-{'cards' if whole else 'memory'}.sock"

    @property
    def socket(self) -> Path:
        """The path of the socket on which this plugin serves."""
        return self._root / PLUGIN_FOLDER / self.endpoint

    @property
    def withheld(self) -> bool:
        """Whether the resource is not offered and has no allocated devices, so that no registration is needed."""
        return not self.offered and all(device.health != HEALTHY for device in self._devices.devices)

    @property
    def reported(self) -> bool:
        """Whether the inventory lists the resource as withheld while it is not offered."""
        return True

    async def advertise(self, cards: Sequence[FoundCard], unit_bytes: int, in_use: Collection[str] = ()) -> None:
        """Send the devices of these cards to the kubelet, with their memory in units of `unit_bytes`.

        If the kubelet is connected, wait until it has received the list or a timeout expires.

        Raises:
            DevicePluginError: the number of devices exceeds the number that the kubelet accepts.
        """
        found = [found.card for found in cards]
        offered = self._is_managed()
        devices = build_device_list(found, whole=self._whole, unit_bytes=unit_bytes, in_use=in_use, offered=offered)
        async with self._changed:
            self.offered = offered
            self._cards, self._allocations.unit_bytes = cards, unit_bytes
            self._allocations.ids = DeviceIds(card.id for card in found)
            await self._send(devices)

    async def _send(self, devices: api.ListAndWatchResponse) -> None:
        """Replace the list of devices, and wait until the kubelet has received it.

        The caller must hold `self._changed`.
        """
        if devices == self._devices:
            return
        self._devices = devices
        self._changed.notify_all()
        delivery = self._changed.wait_for(lambda: self._sent is self._devices or not self._streams)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(delivery, _DELIVERY_SECONDS)

    async def start(self) -> None:
        """Start to serve before the registration, because the kubelet connects to the plugin before it responds.

        Raises:
            DevicePluginError: the socket cannot be created, or the kubelet rejected the registration.
        """
        await self.stop()
        self._server = grpc.aio.server()
        api_grpc.add_DevicePluginServicer_to_server(self, self._server)
        try:
            self._server.add_insecure_port(f"unix:{self.socket}")
        except RuntimeError as exc:
            raise DevicePluginError(f"cannot serve on {self.socket}: {exc}") from exc
        await self._server.start()
        await register(self._root, self.endpoint, self._resource, steering=self._steering)
        log.info("registered resource=%s devices=%d", self._resource, len(self._devices.devices))

    async def stop(self) -> None:
        """Stop the server and all streams. gRPC removes the socket."""
        if self._server is not None:
            await self._server.stop(grace=0)
            self._server = None

    async def GetDevicePluginOptions(self, request: api.Empty, context: Any) -> api.DevicePluginOptions:  # noqa: ARG002, N802 - gRPC's signature
        """Return the plugin's options: whether it offers preferred allocation."""
        return api.DevicePluginOptions(get_preferred_allocation_available=self._steering)

    async def ListAndWatch(self, request: api.Empty, context: Any) -> AsyncIterator[api.ListAndWatchResponse]:  # noqa: ARG002, N802 - gRPC's signature
        """Send the devices initially and after changes, at most once per second to limit the updates of the kubelet."""
        self._streams += 1
        try:
            while True:
                sent = self._devices
                yield sent
                async with self._changed:
                    self._sent = sent
                    self._changed.notify_all()
                await asyncio.sleep(_RESEND_SECONDS)
                async with self._changed:
                    while self._devices is sent:
                        await self._changed.wait()
        finally:
            self._streams -= 1

    async def GetPreferredAllocation(  # noqa: N802 - gRPC's name
        self,
        request: api.PreferredAllocationRequest,
        context: Any,  # noqa: ARG002 - gRPC's signature
    ) -> api.PreferredAllocationResponse:
        """Return devices of the cards that were assigned to the container that probably waits for them."""
        started = time.perf_counter()
        observed = await self._observe()
        answer = api.PreferredAllocationResponse()
        for requested in request.container_requests:
            if not self._allocations.expects(self._list_assigned(), observed.held, requested.allocation_size):
                await self._pods.refresh()
            chosen = self._prefer(requested, observed)
            key = self._allocations.find_container(self._list_assigned(), observed.held, chosen)
            if key is not None:
                self._note("offered", key, chosen, started)
            answer.container_responses.add(deviceIDs=chosen)
        return answer

    async def Allocate(self, request: api.AllocateRequest, context: Any) -> api.AllocateResponse:  # noqa: N802 - gRPC's name
        """Allocate the requested device IDs.

        IDs that would exceed the capacity of a card, or that are on too many cards, are rejected.
        """
        started = time.perf_counter()
        observed = await self._observe()
        answer, ids = api.AllocateResponse(), list[str]()
        try:
            for container in request.container_requests:
                ids = list(container.devices_ids)
                cards = self._allocations.ids.count_by_card(ids)
                check_exclusive(cards, observed.others, whole=self._whole)
                check_exclusive(cards, observed.dialects.whole, whole=False)
                unassigned = None
                if not self._allocations.expects(self._list_assigned(), observed.held, len(ids)):
                    unassigned = self._pods.list_unassigned() if await self._pods.refresh() else None
                if not self._whole:
                    self._allocations.check_unit(self._list_assigned(), observed.held, len(ids))
                    own = [found.card for found in self._cards]
                    sizes = compute_device_bytes(observed.holdings, cards)
                    other = observed.dialects.memory_bytes
                    check_capacity(ids, own, sizes, unit_bytes=self._allocations.unit_bytes, other_bytes=other)
                pods = self._list_assigned()
                key = self._allocations.record(pods, observed.held, ids, unassigned=unassigned)
                answer.container_responses.append(self._respond(ids, key))
                self._note("allocated", key, ids, started)
        except DevicePluginError as exc:
            self._count("refused")
            self._log.note_refusal(ids, exc)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(exc))
        self._count("granted")
        self._on_allocate()
        return answer

    async def PreStartContainer(  # noqa: N802 - gRPC's name
        self,
        request: api.PreStartContainerRequest,  # noqa: ARG002 - gRPC's signature
        context: Any,  # noqa: ARG002 - gRPC's signature
    ) -> api.PreStartContainerResponse:
        """Return an empty response. The kubelet does not call this method, because the options do not request it."""
        return api.PreStartContainerResponse()

    def _respond(self, ids: Sequence[str], key: Key | None) -> api.ContainerAllocateResponse:
        unit_bytes, mps = self._unit_bytes, self._mps
        response = build_container_response(ids, self._cards, self._root, unit_bytes=unit_bytes, mps=mps)
        response.envs.update(self._fill_dialect_environment(ids, key))
        return response

    def _prefer(self, requested: api.ContainerPreferredAllocationRequest, observed: _Observed) -> list[str]:
        return self._allocations.prefer(
            *(self._list_assigned(), observed.held),
            available=requested.available_deviceIDs,
            taken=requested.must_include_deviceIDs,
            size=requested.allocation_size,
            avoid={*observed.others, *observed.dialects.whole, *self._list_full(requested.allocation_size, observed)},
            node=self._pods.node_cards,
        )

    def _list_full(self, size: int, observed: _Observed) -> set[str]:
        """Return the cards on which fewer than `size` units are free because pods use resources of other dialects."""
        other, unit_bytes = observed.dialects.memory_bytes, self._allocations.unit_bytes
        if self._whole or not other:
            return set()
        used: Counter[str] = Counter(other)
        for device_id, amount in compute_device_bytes(observed.holdings, other).items():
            used[self._allocations.ids.find_card(device_id)] += amount
        cards = [found.card for found in self._cards if found.card.id in other]
        return {card.id for card in cards if used[card.id] + size * unit_bytes > card.capacity_bytes}

    def _list_assigned(self) -> list[AssignedPod]:
        """Return the pods that have devices of the served dialect or wait for them."""
        served = {self._resource, self._other_resource}
        return [found for pod in self._pods.list_assigned() if (found := pod.select(served)) is not None]

    @property
    def _unit_bytes(self) -> int | None:
        return None if self._whole else self._allocations.unit_bytes

    def _note(self, event: str, key: Key | None, ids: Sequence[str], started: float) -> None:
        pods, by = self._list_assigned(), self._allocations.ids
        seconds = time.perf_counter() - started
        self._log.note(event, key, pods, ids, ids=by, unit_bytes=self._unit_bytes, seconds=seconds)

    def _fill_dialect_environment(self, ids: Sequence[str], key: Key | None) -> Mapping[str, str]:
        if not self._environment or self._whole:
            return {}
        pod = next((pod for pod in self._list_assigned() if key and pod.uid == key[0]), None)
        # The container may be a guess. If the guess is the container of another pod, the sum is correct only if both
        # pods have the same sum.
        pod_units = sum(pod.units.values()) if pod else len(ids)
        return build_dialect_environment(
            self._environment, ids, self._cards, unit_bytes=self._allocations.unit_bytes, pod_units=pod_units
        )

    def settle(self, answer: resources_api.ListPodResourcesResponse) -> HeldDevices:
        """Remove the responses whose devices are allocated; return the allocated devices of this resource."""
        return self._settle(self._allocations, self._resource, answer)

    def _settle(
        self, allocations: PreferredAllocation, resource: str, answer: resources_api.ListPodResourcesResponse
    ) -> HeldDevices:
        held = list_held_devices(answer, resource)
        held_ids = {device_id for ids in held.values() for device_id in ids}
        allocations.settle(self._list_assigned(), self._pods.list_unassigned(), held_ids)
        return held

    async def _observe(self) -> _Observed:
        """Return the allocated devices from the kubelet, or from the assignments if the kubelet does not respond."""
        pods, all_pods = self._list_assigned(), self._pods.list_assigned()
        served = {self._resource, self._other_resource}
        uids = {(pod.namespace, pod.name): pod.uid for pod in pods}
        try:
            answer = await list_pod_resources(self._root)
        except DevicePluginError as exc:
            # The kubelet may have just started. An error would make the pod fail, and the assignments contain
            # sufficient data.
            log.warning("%s; the plugin uses the assignments of this node's pods instead", exc)
            for each in (self._allocations, self._other):
                each.settle(pods, self._pods.list_unassigned(), frozenset())
            dialects = read_others(all_pods, served)
            others = {**(dialects.sharing if self._whole else {}), **list_assigned_cards(pods, whole=not self._whole)}
            return _Observed({}, others, self._allocations.list_pending(), dialects)
        own, other = self.settle(answer), self._settle(self._other, self._other_resource, answer)
        dialects = observe_others(
            answer,
            self._counted,
            served,
            pods=all_pods,
            ids=self._allocations.ids,
            unit_bytes=self._other.unit_bytes if self._whole else self._allocations.unit_bytes,
        )
        others = {**(dialects.sharing if self._whole else {}), **self._other.list_pending_cards()}
        for (namespace, name, _), ids in other.items():
            others.update(dict.fromkeys(self._other.ids.count_by_card(ids), f"{namespace}/{name}"))
        counts = {container: self._allocations.ids.count_by_card(ids) for container, ids in own.items()}
        keyed = {(uids[ns, pod], name): count for (ns, pod, name), count in counts.items() if (ns, pod) in uids}
        found = list_holdings(pods, own, counts, unit_bytes=self._allocations.unit_bytes)
        return _Observed(keyed, others, [*self._allocations.list_pending(), *found], dialects)
