"""Assignments: the cards of each container of a pod, in `accelkit.io/assignment`, the only durable record."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.decoding import decode_version
from accelkit.errors import AssignmentError
from accelkit.model.amounts import Amounts
from accelkit.model.units import MAX_AMOUNT, WHOLE_COMPUTE
from accelkit.texts import shorten

ASSIGNMENT_VERSION: Final = 1
MAX_ASSIGNMENT_BYTES: Final = 64 * 1024
# The key, which is not a valid container name, of shares that will be charged to another pod instead of this pod.
MOVING: Final = "(moving)"


class Share(msgspec.Struct, frozen=True, omit_defaults=True):
    """The amounts of one card that are assigned to one container. A whole card is a share that contains all amounts."""

    card: str
    memory_bytes: int
    compute: int = 0
    whole: bool = False
    amounts: Amounts = ()


class Assignment(msgspec.Struct, frozen=True):
    """The shares of each container, by container name.

    Attributes:
        broken: the constraints that the kubelet's choice violates.
        recorded: whether the node agent wrote the first assignment of the pod, because the extender did not bind it.
    """

    containers: dict[str, tuple[Share, ...]]
    version: int = ASSIGNMENT_VERSION
    broken: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    recorded: bool | msgspec.UnsetType = msgspec.UNSET


_assignment = msgspec.json.Decoder(Assignment)


def encode_assignment(assignment: Assignment) -> str:
    """Return the value of the annotation."""
    return msgspec.json.encode(assignment).decode()


def decode_assignment(text: str) -> Assignment:
    """Read the value of the annotation.

    Raises:
        AssignmentError: the value is too long, is malformed, has a different version, or contains an amount that is out
            of range.
    """
    if len(text) > MAX_ASSIGNMENT_BYTES:
        raise AssignmentError(f"assignment has {len(text)} characters, more than the limit of {MAX_ASSIGNMENT_BYTES}")
    try:
        version = decode_version(text)
        if version != ASSIGNMENT_VERSION:
            raise AssignmentError(
                f"assignment has version {version}, but this program supports version {ASSIGNMENT_VERSION}"
            )
        assignment = _assignment.decode(text)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise AssignmentError(shorten(f"cannot read the assignment: {exc}")) from exc
    for container, shares in assignment.containers.items():
        for share in shares:
            if not 0 <= share.memory_bytes <= MAX_AMOUNT or not 0 <= share.compute <= WHOLE_COMPUTE:
                raise AssignmentError(f"assignment of container {shorten(container)} has invalid amounts")
    return assignment


def is_equal(one: Assignment, other: Assignment) -> bool:
    """Return whether two assignments contain the same shares for each container, apart from `MOVING` and the order."""
    return _sorted(one) == _sorted(other)


def _sorted(assignment: Assignment) -> dict[str, list[tuple[str, int, bool]]]:
    # A whole card includes all of its memory, regardless of the amount in the assignment. Only the ledger counts
    # compute.
    return {
        name: sorted((share.card, 0 if share.whole else share.memory_bytes, share.whole) for share in shares)
        for name, shares in assignment.containers.items()
        if shares and name != MOVING
    }
