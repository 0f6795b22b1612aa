"""Observed allocations: the devices that a node's kubelet reports for containers, as published by the agent.

The agent stores the allocations for audits, in a ConfigMap with the name of the node in accelkit's namespace. The
ledger does not use them, because it counts only the assignments on pods.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.decoding import decode_version
from accelkit.errors import AssignmentError
from accelkit.model.keys import COMPONENT_LABEL, PART_OF_LABELS

ALLOCATIONS_KEY: Final = "allocations.json"
ALLOCATIONS_LABELS: Final = {**PART_OF_LABELS, COMPONENT_LABEL: "allocations"}
ALLOCATIONS_VERSION: Final = 1
# A ConfigMap can store at most 1 MiB of data, and the API server also counts its other fields.
_MOST_BYTES: Final = 1_000_000


class HeldDevices(msgspec.Struct, frozen=True, omit_defaults=True):
    """Devices that are allocated to a container: the number of memory devices per card, and the whole cards."""

    memory: dict[str, int] = {}
    whole: tuple[str, ...] = ()


class HeldPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod with the devices of each container. `enforced_by` is the mechanism that limits its memory; may be empty."""

    namespace: str
    name: str
    containers: dict[str, HeldDevices]
    enforced_by: str = ""


class StrangeProcess(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process that uses a card but does not belong to a pod of the node. `memory_bytes` is None if unknown."""

    card: str
    pid: int
    command: str
    memory_bytes: int | None = None


class Allocations(msgspec.Struct, frozen=True):
    """All allocations of a node.

    Attributes:
        processes: the processes that use cards but do not belong to a pod; None if processes cannot be scanned.
        left_out: the number of pods that were omitted because of the size limit of the ConfigMap.
    """

    node: str
    pods: tuple[HeldPod, ...]
    processes: tuple[StrangeProcess, ...] | None = None
    version: int = ALLOCATIONS_VERSION
    left_out: int = 0


_allocations = msgspec.json.Decoder(Allocations)


def fit_allocations(allocations: Allocations, most_bytes: int = _MOST_BYTES) -> Allocations:
    """Return the allocations without the pods that would exceed the size limit of a ConfigMap.

    The longest entries are omitted first. Among entries of equal length, the entry with the last name in sort order is
    omitted first.
    """
    if len(msgspec.json.encode(allocations)) <= most_bytes:
        return allocations
    sizes = [len(msgspec.json.encode(pod)) + 1 for pod in allocations.pods]
    total = len(pods := allocations.pods)
    # The total number of pods has at least as many digits as the final number of omitted pods.
    room = most_bytes - len(msgspec.json.encode(msgspec.structs.replace(allocations, pods=(), left_out=total)))
    kept = set[int]()
    for index in sorted(range(total), key=lambda index: (sizes[index], pods[index].namespace, pods[index].name)):
        room -= sizes[index]
        if room < 0:
            break
        kept.add(index)
    fitting = tuple(pods[index] for index in sorted(kept))
    return msgspec.structs.replace(allocations, pods=fitting, left_out=total - len(fitting))


def encode_allocations(allocations: Allocations) -> str:
    """Return the allocations as a value for the ConfigMap."""
    return msgspec.json.encode(allocations).decode()


def decode_allocations(text: str) -> Allocations:
    """Return the allocations from the value in the ConfigMap.

    Raises:
        AssignmentError: the value is malformed or has a different version.
    """
    try:
        version = decode_version(text)
        if version != ALLOCATIONS_VERSION:
            raise AssignmentError(
                f"observed allocations have version {version}, but this program supports version {ALLOCATIONS_VERSION}"
            )
        return _allocations.decode(text)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise AssignmentError(f"cannot read the observed allocations: {exc}") from exc
