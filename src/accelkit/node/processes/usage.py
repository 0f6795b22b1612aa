"""Compares what processes hold of cards with what their pods were given.

Only compares: nothing here reads the host or stops a process.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.model.observed_allocations import StrangeProcess
from accelkit.node.processes.scan import CardProcess

# A process that opens a card pays for its context, before it allocates anything: 250 to 550 MiB with CUDA. A program
# that keeps to its share cannot avoid it.
CONTEXT_BYTES: Final = 512 * 2**20

# The kernel keeps 15 characters of a process's name.
_COMMAND_LENGTH: Final = 15


@dataclass(frozen=True, slots=True)
class OverUse:
    """A pod holds more of a card than it was given, amounts in bytes.

    Attributes:
        granted_bytes: 0 where the pod has no share of the card at all.
        at_least: whether it may be more than `used_bytes`, because not all of its processes show their memory.
    """

    pod_uid: str
    card: str
    granted_bytes: int
    used_bytes: int
    at_least: bool = False


def find_over_use(
    processes: Sequence[CardProcess],
    granted: Mapping[tuple[str, str], int],
    *,
    tolerance_bytes: int = CONTEXT_BYTES,
    unknown: Collection[str] = (),
) -> list[OverUse]:
    """Return the pods that hold more than they were given, by UID and card.

    Args:
        processes: those on cards; those of no pod are not judged here.
        granted: bytes by pod UID and card id.
        tolerance_bytes: what each process that holds memory may hold beyond it.
        unknown: UIDs of pods whose shares cannot be read, which are not judged.
    """
    held: dict[tuple[str, str], list[int | None]] = {}
    for each in processes:
        if each.pod_uid is not None and each.pod_uid not in unknown:
            held.setdefault((each.pod_uid, each.card), []).append(each.memory_bytes)
    found: list[OverUse] = []
    for (pod_uid, card), amounts in sorted(held.items()):
        holding = [amount for amount in amounts if amount]
        allowed, used = granted.get((pod_uid, card), 0), sum(holding)
        if used > allowed + tolerance_bytes * len(holding):
            found.append(OverUse(pod_uid, card, allowed, used, at_least=None in amounts))
    return found


def find_strange_processes(
    processes: Sequence[CardProcess], known: Collection[str], services: Collection[str]
) -> list[StrangeProcess]:
    """Return the processes on cards that belong to no pod of this node, in their order.

    Args:
        processes: those on cards.
        known: UIDs of all pods of the node, with or without a share; for a static pod also the one its kubelet made up.
        services: names of programs that belong to the host while they hold no more than a context. A name is no proof,
            so one that holds more is told of.
    """
    of_host = {name[:_COMMAND_LENGTH] for name in services}
    return [
        StrangeProcess(each.card, each.pid, each.command, each.memory_bytes)
        for each in processes
        if each.pod_uid not in known
        and not (each.command in of_host and each.pod_uid is None and (each.memory_bytes or 0) <= CONTEXT_BYTES)
    ]
