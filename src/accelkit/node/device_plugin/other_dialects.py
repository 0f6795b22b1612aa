"""Cards that are allocated to containers through resources of dialects that the agent does not serve.

The kubelet counts the devices of each resource separately. Therefore, it may allocate a card through one resource
although the card is already allocated through another resource.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from accelkit.node._proto import podresources_pb2 as resources_api
from accelkit.node.assigned_pod import AssignedPod
from accelkit.node.device_plugin.capacity_check import compute_device_bytes, list_holdings
from accelkit.node.devices import DeviceIds
from accelkit.node.kubelet import HeldDevices, list_held_devices
from accelkit.vendors.counted_dialects import DeviceResources


@dataclass(frozen=True, slots=True)
class HeldByOthers:
    """Cards that are allocated to pods through the resources of other dialects.

    Attributes:
        memory_bytes: for each shared card, the memory that is allocated to pods.
        sharing: for each shared card, a pod that has a share of it.
        whole: for each card that is allocated as a whole, the pod that has it.
    """

    memory_bytes: Mapping[str, int] = field(default_factory=dict)
    sharing: Mapping[str, str | None] = field(default_factory=dict)
    whole: Mapping[str, str | None] = field(default_factory=dict)


def observe_others(
    answer: resources_api.ListPodResourcesResponse,
    counted: DeviceResources,
    served: Collection[str],
    *,
    pods: Sequence[AssignedPod],
    ids: DeviceIds,
    unit_bytes: int,
) -> HeldByOthers:
    """Return the cards that, according to the kubelet, are allocated to pods through other resources.

    Args:
        answer: the response from the kubelet's pod resources API.
        counted: the resources through which accelkit's devices may be allocated to containers.
        served: the resources that this agent serves.
        pods: the pods of this node with assignments.
        ids: the device IDs of the node's cards.
        unit_bytes: the current unit of memory.
    """
    memory_bytes: Counter[str] = Counter()
    sharing: dict[str, str | None] = {}
    whole: dict[str, str | None] = {}
    for held in _list_held(answer, counted, [each for each in counted.memory if each not in served], pods):
        counts = {container: ids.count_by_card(device_ids) for container, device_ids in held.items()}
        cards = {card for count in counts.values() for card in count}
        holdings = list_holdings(pods, held, counts, unit_bytes=unit_bytes)
        for device_id, amount in compute_device_bytes(holdings, cards).items():
            memory_bytes[ids.find_card(device_id)] += amount
        for (namespace, name, _), count in counts.items():
            sharing.update(dict.fromkeys(count, f"{namespace}/{name}"))
    for held in _list_held(answer, counted, [each for each in counted.cards if each not in served], pods):
        for (namespace, name, _), device_ids in held.items():
            whole.update(dict.fromkeys(device_ids, f"{namespace}/{name}"))
    return HeldByOthers(memory_bytes, sharing, whole)


def read_others(pods: Sequence[AssignedPod], served: Collection[str]) -> HeldByOthers:
    """Return the cards that, according to the assignments, are allocated to pods through other resources."""
    memory_bytes: Counter[str] = Counter()
    sharing: dict[str, str | None] = {}
    whole: dict[str, str | None] = {}
    for pod in pods:
        own = pod.select(served)
        for name, shares in pod.assignment.containers.items():
            if own is None or name not in own.assignment.containers:
                for share in shares:
                    (whole if share.whole else sharing)[share.card] = f"{pod.namespace}/{pod.name}"
                    memory_bytes[share.card] += 0 if share.whole else share.memory_bytes
    return HeldByOthers(memory_bytes, sharing, whole)


def _list_held(
    answer: resources_api.ListPodResourcesResponse,
    counted: DeviceResources,
    names: Sequence[str],
    pods: Sequence[AssignedPod],
) -> Iterator[HeldDevices]:
    assigned = {(pod.namespace, pod.name) for pod in pods}
    for name in names:
        held = list_held_devices(answer, name)
        if name in counted.ambiguous:
            held = {key: device_ids for key, device_ids in held.items() if key[:2] in assigned}
        yield held
