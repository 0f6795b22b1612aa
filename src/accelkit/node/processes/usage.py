"""Comparison of the memory that processes use on cards with the shares of their pods.

The module does not read the host's files and does not stop processes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from accelkit.model.observed_allocations import StrangeProcess
from accelkit.node.processes.scan import CardProcess

# The context of a process on a card uses memory before any allocation: 250 to 550 MiB with CUDA. A program cannot avoid
# this usage, even if it does not allocate more than its share.
CONTEXT_BYTES: Final = 512 * 2**20

# The kernel truncates the name of a process to 15 characters.
_COMMAND_LENGTH: Final = 15


@dataclass(frozen=True, slots=True)
class OverUse:
    """A pod that uses more memory of a card than its share, with amounts in bytes.

    Attributes:
        pod_uid: the UID of the pod.
        card: the card's ID.
        granted_bytes: the share of the pod; 0 if the pod does not have a share of the card.
        used_bytes: the memory that the processes of the pod use.
        at_least: whether the pod may use more than `used_bytes`, because the memory of a process is unknown.
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
    """Return the pods that use more memory than their share, sorted by UID and card.

    Args:
        processes: the processes on cards; processes without a pod are ignored.
        granted: the shares in bytes, by pod UID and card ID.
        tolerance_bytes: the memory beyond the share that is tolerated for each process with memory on the card.
        unknown: the UIDs of pods whose shares cannot be read, which are ignored.
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
    """Return the processes on cards that do not belong to any pod of this node, in the same order.

    Args:
        processes: the processes on cards.
        known: the UIDs of all pods of the node, with or without a share. For a static pod, this includes the UID that
            its kubelet generated.
        services: the names of programs that run on the host. A process can change its name, so a process with such a
            name is also returned if it uses more memory than a context.
    """
    of_host = {name[:_COMMAND_LENGTH] for name in services}
    return [
        StrangeProcess(each.card, each.pid, each.command, each.memory_bytes)
        for each in processes
        if each.pod_uid not in known
        and not (each.command in of_host and each.pod_uid is None and (each.memory_bytes or 0) <= CONTEXT_BYTES)
    ]
