"""The architecture that kernels are compiled for, by the name of a card.

Only names that leave no doubt are here, from NVIDIA's list of compute capabilities and the tables of supported GPUs in
AMD's ROCm documentation.
"""

from __future__ import annotations

import re
from typing import Final

_CUDA: Final = {
    "P4": "61",
    "P40": "61",
    "P100": "60",
    "V100": "70",
    "T4": "75",
    "A100": "80",
    "A800": "80",
    "A30": "80",
    "A2": "86",
    "A10": "86",
    "A10G": "86",
    "A16": "86",
    "A40": "86",
    "L4": "89",
    "L40": "89",
    "L40S": "89",
    "H20": "90",
    "H100": "90",
    "H200": "90",
    "H800": "90",
    "GH200": "90",
    "B100": "100",
    "B200": "100",
    "GB200": "100",
    "B300": "103",
    "GB300": "103",
}
_HIP: Final = {
    "MI50": "gfx906",
    "MI60": "gfx906",
    "MI100": "gfx908",
    "MI210": "gfx90a",
    "MI250": "gfx90a",
    "MI250X": "gfx90a",
    "MI300A": "gfx942",
    "MI300X": "gfx942",
    "MI308X": "gfx942",
    "MI325X": "gfx942",
    "MI350X": "gfx950",
    "MI355X": "gfx950",
}
_TABLES: Final = {"cuda": _CUDA, "hip": _HIP}
_WORD: Final = re.compile(r"[A-Za-z0-9]+")
BACKENDS: Final = {"nvidia": "cuda", "amd": "hip", "gaudi": "hpu", "intel": "xpu"}


def architecture_of(vendor: str, model: str) -> str | None:
    """Return the architecture of a card; None where its name is not known, or could be of several.

    Args:
        vendor: the name of the vendor's profile.
        model: as the vendor's tools write it, `NVIDIA H100 80GB HBM3` or `AMD Instinct MI250X / MI250`.
    """
    table = _TABLES.get(BACKENDS.get(vendor, ""), {})
    found = {table[word] for word in _WORD.findall(model) if word in table}
    return found.pop() if len(found) == 1 else None
