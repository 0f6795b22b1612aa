"""Reader for the node labels in which NVIDIA's GPU feature discovery publishes the driver version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from accelkit.kernelcache.compatibility.ptx import parse_version

_FULL: Final = "nvidia.com/cuda.driver-version.full"
# Releases before 0.15 write only the version components, each in a separate label.
_PARTS: Final = ("nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev")
_CUDA: Final = "nvidia.com/cuda.runtime-version.full"
_CUDA_PARTS: Final = ("nvidia.com/cuda.runtime.major", "nvidia.com/cuda.runtime.minor")


class LabelledDriver(NamedTuple):
    """A node's NVIDIA driver version and the newest supported CUDA version. Each is None if its labels are missing."""

    version: str | None = None
    cuda: str | None = None


def read_driver_labels(labels: Mapping[str, str] | None) -> LabelledDriver:
    """Return the driver and CUDA versions in the labels of a node."""
    given = labels or {}
    return LabelledDriver(_read(given, _FULL, _PARTS), _read(given, _CUDA, _CUDA_PARTS))


def _read(labels: Mapping[str, str], full: str, parts: tuple[str, ...]) -> str | None:
    found = labels.get(full) or ".".join(part for each in parts if (part := labels.get(each)))
    return found if parse_version(found) is not None else None
