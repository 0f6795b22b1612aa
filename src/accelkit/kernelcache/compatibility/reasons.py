"""Reasons why a card cannot use a cache, or must compile kernels again: a code for programs and a message for users."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class ReasonCode(StrEnum):
    """The machine-readable code of a reason."""

    BACKEND_MISMATCH = "BackendMismatch"
    ARCH_MISMATCH = "ArchMismatch"
    WARP_SIZE_MISMATCH = "WarpSizeMismatch"
    PTX_TOO_NEW = "PtxTooNew"
    TOOLKIT_MISMATCH = "ToolkitMismatch"
    CPU_ARCH_MISMATCH = "CpuArchMismatch"
    NO_GPU = "NoGpu"
    UNKNOWN_FORMAT = "UnknownFormat"
    UNKNOWN_GPU = "UnknownGpu"
    UNKNOWN_TARGET = "UnknownTarget"
    DRIVER_UNKNOWN = "DriverUnknown"
    CPU_ARCH_UNKNOWN = "CpuArchUnknown"
    PRODUCT_MISMATCH = "ProductMismatch"
    TRITON_MISMATCH = "TritonMismatch"
    FRAMEWORK_MISMATCH = "FrameworkMismatch"

    @property
    def leaves_unknown(self) -> bool:
        """Whether a fact is unknown, so the verdict is also unknown."""
        return self in {
            ReasonCode.UNKNOWN_FORMAT,
            ReasonCode.UNKNOWN_GPU,
            ReasonCode.UNKNOWN_TARGET,
            ReasonCode.DRIVER_UNKNOWN,
            ReasonCode.CPU_ARCH_UNKNOWN,
        }


class CompatibilityReason(msgspec.Struct, frozen=True):
    """A reason. If `hard` is set, kernels fail to load. Otherwise, kernels are compiled again, or a fact is unknown."""

    code: ReasonCode
    message: str
    hard: bool = False
