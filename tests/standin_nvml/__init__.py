"""A stand-in for NVIDIA's management library: the C interface that pynvml calls, over a text file. See README.md."""

from standin_nvml.library import build_library
from standin_nvml.state import NO_LIMIT, Limits, StandinCard, StandinNvml

__all__ = ["NO_LIMIT", "Limits", "StandinCard", "StandinNvml", "build_library"]
