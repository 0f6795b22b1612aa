"""Observed allocations: what the kubelet of a node says that containers hold, passed on by its agent for audits.

It lies in a ConfigMap named like the node, in the namespace of accelkit. It is what was seen, not what is counted: the
ledger goes by the assignments on pods alone.
"""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.errors import AssignmentError

ALLOCATIONS_KEY: Final = "allocations.json"
ALLOCATIONS_LABELS: Final = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/component": "allocations"}
ALLOCATIONS_VERSION: Final = 1


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
    """All of a node; `processes` is None where nobody can look."""

    node: str
    pods: tuple[HeldPod, ...]
    processes: tuple[StrangeProcess, ...] | None = None
    version: int = ALLOCATIONS_VERSION


class _Version(msgspec.Struct):
    version: int


_version = msgspec.json.Decoder(_Version)
_allocations = msgspec.json.Decoder(Allocations)


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
