"""Reads how much memory of NVIDIA's cards each process holds, from the management library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from accelkit.node.discovery.nvml import initialize

# The library's word for an amount that it does not know.
_UNKNOWN = 2**64 - 1
# With MPS the server holds the memory of its clients, which stand in a list of their own.
_CALLS = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)


@dataclass(frozen=True, slots=True)
class UsedMemory:
    """What the library knows of processes.

    Attributes:
        amounts: bytes by card and process id, None of which it knows no amount.
        cards: the cards that it knows.
    """

    amounts: Mapping[tuple[str, int], int | None]
    cards: frozenset[str]


def read_used_memory(nvml: Any, bdfs: Mapping[str, str]) -> UsedMemory:
    """Return what processes hold of cards.

    Args:
        nvml: the module `pynvml`, not yet initialised.
        bdfs: cards by PCI address.
    """
    amounts: dict[tuple[str, int], int | None] = {}
    cards = set[str]()
    with initialize(nvml) as works:
        for bdf, card in bdfs.items() if works else ():
            answers = [_ask(nvml, getattr(nvml, name, None), bdf) for name in _CALLS]
            for process in (each for answer in answers for each in answer or ()):
                amount, key = process.usedGpuMemory, (card, int(process.pid))
                known = None if amount is None or amount == _UNKNOWN else int(amount)
                amounts[key] = max((each for each in (amounts.get(key), known) if each is not None), default=None)
            if answers[0] is not None:
                cards.add(card)
    return UsedMemory(amounts, frozenset(cards))


def _ask(nvml: Any, call: Callable[[Any], list[Any]] | None, bdf: str) -> list[Any] | None:
    """Return a list of processes; None where the library does not know it."""
    try:
        return None if call is None else call(nvml.nvmlDeviceGetHandleByPciBusId(bdf))
    except nvml.NVMLError:
        return None
