"""Likelihood that a workload finds its kernels in a cache that its card can load.

Frameworks look up kernels by a key that covers far more than the hardware, and compile silently if the key differs.
Triton's key covers its own version. Inductor's also covers the name of an NVIDIA card and the version of CUDA. The name
of vLLM's folder also covers the model and the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from accelkit.kernelcache.compatibility.node_facts import GpuFacts, WorkloadFacts
from accelkit.kernelcache.compatibility.reasons import CompatibilityReason, ReasonCode
from accelkit.kernelcache.formats import ImageLabels


class Hit(StrEnum):
    """Likelihood of a hit: LIKELY if all factors agree, ARCH_ONLY if some could not be compared."""

    LIKELY = "likely"
    ARCH_ONLY = "arch-only"
    MISS = "miss"
    UNKNOWN = "unknown"


_IN_SENTENCES = {"card": "a card named", "vLLM configuration": "the vLLM configuration"}


class Factor(msgspec.Struct, frozen=True):
    """One part of a framework's key that labels can state.

    Attributes:
        code: the reason code of a difference.
        name: `Triton`, `CUDA` and so on.
        offered: the values with which the image was compiled; empty if the image does not state them.
        wanted: the value that the workload uses; None if it is unknown.
    """

    code: ReasonCode
    name: str
    offered: tuple[str, ...]
    wanted: str | None

    @property
    def agrees(self) -> bool | None:
        """Whether `wanted` is among `offered`; None if one of them is unknown."""
        return self.wanted in self.offered if self.offered and self.wanted is not None else None

    @property
    def message(self) -> str:
        """The factor as a sentence."""
        subject = _IN_SENTENCES.get(self.name, self.name)
        if not self.offered:
            return f"the image does not state which {self.name} was used for compilation"
        if self.wanted is None:
            return (
                f"the cache was compiled with {subject} {', '.join(self.offered)}, but the workload's value is unknown"
            )
        if self.agrees:
            return f"the cache was compiled with {subject} {self.wanted}, as the workload requires"
        return f"the cache was compiled with {subject} {', '.join(self.offered)}, but the workload uses {self.wanted}"


def find_mismatches(factors: Iterable[Factor]) -> Iterator[CompatibilityReason]:
    """Yield a reason for each factor of the key that is known to differ."""
    for factor in factors:
        if factor.agrees is False:
            yield CompatibilityReason(factor.code, factor.message)


def estimate_hit(factors: tuple[Factor, ...], reasons: tuple[CompatibilityReason, ...]) -> Hit:
    """Return the likelihood of a hit, given the factors of the key and all reasons."""
    codes = {reason.code for reason in reasons}
    keys = {ReasonCode.PRODUCT_MISMATCH, ReasonCode.TRITON_MISMATCH, ReasonCode.FRAMEWORK_MISMATCH}
    if any(reason.hard for reason in reasons) or codes & keys:
        return Hit.MISS
    if codes & {ReasonCode.UNKNOWN_GPU, ReasonCode.UNKNOWN_TARGET, ReasonCode.UNKNOWN_FORMAT}:
        return Hit.UNKNOWN
    return Hit.LIKELY if factors and all(factor.agrees for factor in factors) else Hit.ARCH_ONLY


def list_factors(labels: ImageLabels, gpu: GpuFacts, workload: WorkloadFacts) -> Iterator[Factor]:
    """Yield the factors that decide whether a workload finds the kernels on a card that can load them."""
    if labels.format == "triton" or labels.triton_versions:
        yield Factor(ReasonCode.TRITON_MISMATCH, "Triton", labels.triton_versions, workload.triton_version)
    if labels.format != "vllm":
        return
    if gpu.on_cuda:
        built_on = (labels.gpu_product,) if labels.gpu_product else ()
        yield Factor(ReasonCode.PRODUCT_MISMATCH, "card", built_on, gpu.product)
    if workload.cache_hash is not None:
        yield Factor(ReasonCode.FRAMEWORK_MISMATCH, "vLLM configuration", labels.hashes, workload.cache_hash)
    elif gpu.on_cuda:
        yield Factor(ReasonCode.FRAMEWORK_MISMATCH, "CUDA", labels.cuda_versions, workload.cuda_version)
