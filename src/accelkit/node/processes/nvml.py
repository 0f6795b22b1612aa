"""Reader of the memory that each process uses on NVIDIA's cards, from the management library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from accelkit.node.discovery.nvml import initialize

# The value that the library returns for an unknown amount.
_UNKNOWN = 2**64 - 1
# With MPS, the memory of the clients belongs to the server, and the library lists the clients separately.
_CALLS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)


@dataclass(frozen=True, slots=True)
class UsedMemory:
    """The memory that processes use, and the cards that the library reports.

    Attributes:
        amounts: the used memory in bytes, by card and process ID; None for an unknown amount.
        cards: the cards whose processes the library lists.
    """

    amounts: Mapping[tuple[str, int], int | None]
    cards: frozenset[str]


def read_used_memory(nvml: Any, bdfs: Mapping[str, str]) -> UsedMemory:
    """Return the memory that processes use on cards.

    Args:
        nvml: the module `pynvml`, which is not initialized yet.
        bdfs: the card IDs by PCI address.
    """
    amounts: dict[tuple[str, int], int | None] = {}
    cards = set[str]()
    with initialize(nvml) as works:
        for bdf, card in bdfs.items() if works else ():
            answers = [_call(nvml, getattr(nvml, name, None), bdf) for name in _CALLS]
            for process in (each for answer in answers for each in answer or ()):
                amount, key = process.usedGpuMemory, (card, int(process.pid))
                known = None if amount is None or amount == _UNKNOWN else int(amount)
                amounts[key] = max((each for each in (amounts.get(key), known) if each is not None), default=None)
            if answers[0] is not None:
                cards.add(card)
    return UsedMemory(amounts, frozenset(cards))


def _call(nvml: Any, call: Callable[[Any], list[Any]] | None, bdf: str) -> list[Any] | None:
    """Return a list of processes; None if the library does not support the call."""
    try:
        return None if call is None else call(nvml.nvmlDeviceGetHandleByPciBusId(bdf))
    except nvml.NVMLError:
        return None
