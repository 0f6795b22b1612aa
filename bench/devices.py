"""The device plugin with as many devices as a kubelet takes, against a floor: the same messages decoded and encoded.

A node of 8 cards of 16 GiB in units of 0.001 GiB; the last card is free, and as many devices are asked for as it has.
Each message is encoded and decoded as gRPC does. Prints JSON: seconds of a call at the median, ratios to the floor, and
the bytes of the longest messages.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from figures import Figure, report

from accelkit.model.card import Card
from accelkit.model.units import parse_unit
from accelkit.node._proto import deviceplugin_pb2 as api
from accelkit.node._proto import podresources_pb2 as resources
from accelkit.node.assigned_pod import AssignedPod
from accelkit.node.device_plugin import plugin as module
from accelkit.node.device_plugin.plugin import DevicePlugin
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation
from accelkit.node.discovery import FoundCard
from accelkit.node.kubelet import MAX_MESSAGE_BYTES
from accelkit.node.node_cards import NodeCards
from accelkit.vendors.profiles import load_profiles

GIB = 2**30
CARDS = 8
RESOURCE = "enflame.com/gcu-memory"
ROUNDS = 10
# A kubelet admits pods one after the other and waits for each call.
AIM_OF_SECONDS = 1.0


class NoPods:
    """Pods of a node without assignments."""

    def __init__(self, cards: NodeCards) -> None:
        self.node_cards = cards

    def list_assigned(self) -> list[AssignedPod]:
        return []

    def list_unassigned(self) -> frozenset[str]:
        return frozenset()

    async def refresh(self) -> bool:
        """Nothing is newer."""
        return True


def build_cards(gib: int) -> list[FoundCard]:
    profile = load_profiles()["simulated"]
    return [
        FoundCard(
            Card(f"GPU-00000000-0000-4000-8000-00000000000{number}", "v", "m", gib * GIB, numa=number // 4),
            number,
            number,
            profile,
        )
        for number in range(CARDS)
    ]


def write_pod_resources(held: list[list[str]]) -> bytes:
    answer = resources.ListPodResourcesResponse()
    for number, ids in enumerate(held):
        container = answer.pod_resources.add(name=f"pod-{number}", namespace="default").containers.add(name="main")
        for device_id in ids:
            topology = resources.TopologyInfo(nodes=[resources.NUMANode(ID=1)])
            container.devices.add(resource_name=RESOURCE, device_ids=[device_id], topology=topology)
    return answer.SerializeToString()


async def time_calls(call: Callable[[], Awaitable[object]], rounds: int) -> float:
    taken = []
    for _ in range(rounds):
        started = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


async def measure(gib: int, rounds: int) -> dict[str, object]:
    cards, unit_bytes = build_cards(gib), parse_unit("0.001")
    shown_cards = NodeCards({found.card.id: found.card for found in cards}, unit_bytes)
    plugin = DevicePlugin(
        Path(tempfile.mkdtemp()),
        resource=RESOURCE,
        whole=False,
        pods=NoPods(shown_cards),
        allocations=PreferredAllocation(whole=False),
        other=("enflame.com/gcu-count", PreferredAllocation(whole=True)),
    )
    started = time.perf_counter()
    await plugin.advertise(cards, unit_bytes)
    shown_after = time.perf_counter() - started
    sent = plugin._devices  # noqa: SLF001 - what the kubelet is sent
    ids, size = [device.ID for device in sent.devices], len(sent.devices) // CARDS
    free = ids[-size:]
    held = write_pod_resources([ids[start : start + size] for start in range(0, len(ids) - size, size)])

    async def list_held(_root: Path) -> resources.ListPodResourcesResponse:
        return resources.ListPodResourcesResponse.FromString(held)

    # Where the plugin looks; a benchmark has no kubelet.
    setattr(module, "list_pod_resources", list_held)  # noqa: B010 - mypy knows that it is no variable
    container: Any = api.ContainerPreferredAllocationRequest(available_deviceIDs=free, allocation_size=size)
    prefer = api.PreferredAllocationRequest(container_requests=[container]).SerializeToString()
    container = api.ContainerAllocateRequest(devices_ids=free)
    allocate = api.AllocateRequest(container_requests=[container]).SerializeToString()

    async def call_prefer() -> None:
        answer = await plugin.GetPreferredAllocation(api.PreferredAllocationRequest.FromString(prefer), None)
        assert sorted(answer.container_responses[0].deviceIDs) == sorted(free)
        answer.SerializeToString()

    async def call_allocate() -> None:
        plugin._allocations._pending.clear()  # noqa: SLF001 - as if it had come to nothing
        answer = await plugin.Allocate(api.AllocateRequest.FromString(allocate), None)
        answer.SerializeToString()

    async def floor() -> None:
        await list_held(Path())
        request = api.PreferredAllocationRequest.FromString(prefer).container_requests[0]
        answer = api.PreferredAllocationResponse()
        answer.container_responses.add(deviceIDs=list(request.available_deviceIDs))
        answer.SerializeToString()

    least = await time_calls(floor, rounds)
    preferred, allocated = [await time_calls(call, rounds) for call in (call_prefer, call_allocate)]
    return {
        "devices": len(ids),
        "list_seconds": round(shown_after, 3),
        "list_bytes": Figure(sent.ByteSize(), MAX_MESSAGE_BYTES),
        "pod_resources_bytes": len(held),
        "floor_seconds": round(least, 4),
        "preferred_seconds": Figure(round(preferred, 3), AIM_OF_SECONDS),
        "preferred_to_floor": round(preferred / least, 1),
        "allocate_seconds": Figure(round(allocated, 3), AIM_OF_SECONDS),
        "allocate_to_floor": round(allocated / least, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gib", type=int, default=16, help="size of each card")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="calls of each kind")
    options = parser.parse_args()
    report(asyncio.run(measure(options.gib, options.rounds)))


if __name__ == "__main__":
    main()
