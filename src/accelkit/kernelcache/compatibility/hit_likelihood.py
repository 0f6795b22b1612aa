"""Likelihood that a workload finds its kernels in a cache whose kernels its card can load.

Frameworks look up kernels by a key that depends on more than the hardware, and compile silently if the key differs.
Triton's key includes the Triton version. Inductor's key also includes the CUDA version and the NVIDIA card's name. The
name of vLLM's folder also depends on the model and the configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from accelkit.kernelcache.compatibility.node_facts import GpuFacts, WorkloadFacts
from accelkit.kernelcache.compatibility.reasons import CompatibilityReason, ReasonCode
from accelkit.kernelcache.formats import ImageLabels


class Hit(StrEnum):
    """Likelihood of a cache hit: LIKELY if all factors match, ARCH_ONLY if some factors could not be compared."""

    LIKELY = "likely"
    ARCH_ONLY = "arch-only"
    MISS = "miss"
    UNKNOWN = "unknown"


_IN_SENTENCES = {"card": "a card named", "vLLM configuration": "the vLLM configuration"}


class Factor(msgspec.Struct, frozen=True):
    """One component of a framework's cache key that image labels can specify.

    Attributes:
        code: the reason code that is reported if the values differ.
        name: `Triton`, `CUDA` and so on.
        offered: the values that were used for compilation; empty if the image does not specify them.
        wanted: the value that the workload uses; None if it is unknown.
    """

    code: ReasonCode
    name: str
    offered: tuple[str, ...]
    wanted: str | None

    @property
    def agrees(self) -> bool | None:
        """Whether `offered` contains `wanted`; None if `offered` is empty or `wanted` is None."""
        return self.wanted in self.offered if self.offered and self.wanted is not None else None

    @property
    def message(self) -> str:
        """A description of the factor for users."""
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
    """Yield a reason for each factor whose values are known to differ."""
    for factor in factors:
        if factor.agrees is False:
            yield CompatibilityReason(factor.code, factor.message)


def estimate_hit(factors: tuple[Factor, ...], reasons: tuple[CompatibilityReason, ...]) -> Hit:
    """Return the likelihood of a cache hit, given the key factors and all reasons."""
    codes = {reason.code for reason in reasons}
    keys = {ReasonCode.PRODUCT_MISMATCH, ReasonCode.TRITON_MISMATCH, ReasonCode.FRAMEWORK_MISMATCH}
    if any(reason.hard for reason in reasons) or codes & keys:
        return Hit.MISS
    if codes & {ReasonCode.UNKNOWN_GPU, ReasonCode.UNKNOWN_TARGET, ReasonCode.UNKNOWN_FORMAT}:
        return Hit.UNKNOWN
    return Hit.LIKELY if factors and all(factor.agrees for factor in factors) else Hit.ARCH_ONLY


def list_factors(labels: ImageLabels, gpu: GpuFacts, workload: WorkloadFacts) -> Iterator[Factor]:
    """Yield the factors that determine whether a workload finds the kernels, for a card that can load them."""
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
