"""Observed allocations: what the kubelet of a node says that containers hold, passed on by its agent for audits.

It lies in a ConfigMap named like the node, in the namespace of accelkit. It is what was seen, not what is counted: the
ledger goes by the assignments on pods alone.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.errors import AssignmentError
from accelkit.model.keys import COMPONENT_LABEL, PART_OF_LABELS

ALLOCATIONS_KEY: Final = "allocations.json"
ALLOCATIONS_LABELS: Final = {**PART_OF_LABELS, COMPONENT_LABEL: "allocations"}
ALLOCATIONS_VERSION: Final = 1
# A ConfigMap takes 1 MiB of data, and the API server counts its other parts too.
_MOST_BYTES: Final = 1_000_000


class HeldDevices(msgspec.Struct, frozen=True, omit_defaults=True):
    """Devices of a container by card: how many of memory, and whole cards."""

    memory: dict[str, int] = {}
    whole: tuple[str, ...] = ()


class HeldPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that holds devices, by container; `enforced_by` is what keeps it within its memory, empty for nothing."""

    namespace: str
    name: str
    containers: dict[str, HeldDevices]
    enforced_by: str = ""


class StrangeProcess(msgspec.Struct, frozen=True, omit_defaults=True):
    """A process on a card that belongs to no pod of the node; `memory_bytes` is None where it cannot be read."""

    card: str
    pid: int
    command: str
    memory_bytes: int | None = None


class Allocations(msgspec.Struct, frozen=True):
    """All of a node; `processes` is None where nobody can look, `left_out` how many pods found no room."""

    node: str
    pods: tuple[HeldPod, ...]
    processes: tuple[StrangeProcess, ...] | None = None
    version: int = ALLOCATIONS_VERSION
    left_out: int = 0


class _Version(msgspec.Struct):
    version: int


_version = msgspec.json.Decoder(_Version)
_allocations = msgspec.json.Decoder(Allocations)


def fit_allocations(allocations: Allocations, most_bytes: int = _MOST_BYTES) -> Allocations:
    """Leave out the pods that find no room in a ConfigMap: the longest first, of equal ones the last by name."""
    if len(msgspec.json.encode(allocations)) <= most_bytes:
        return allocations
    sizes = [len(msgspec.json.encode(pod)) + 1 for pod in allocations.pods]
    total = len(pods := allocations.pods)
    # With a number that has as many digits as the one that will be there, at least.
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
    """Write the ConfigMap's value."""
    return msgspec.json.encode(allocations).decode()


def decode_allocations(text: str) -> Allocations:
    """Read the ConfigMap's value.

    Raises:
        AssignmentError: malformed, or of another version.
    """
    try:
        version = _version.decode(text).version
        if version != ALLOCATIONS_VERSION:
            raise AssignmentError(f"allocations of version {version} are not known (this is {ALLOCATIONS_VERSION})")
        return _allocations.decode(text)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise AssignmentError(f"allocations cannot be read: {exc}") from exc
