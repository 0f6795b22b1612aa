"""How likely a workload finds its kernels in a cache that its card can load.

Frameworks look kernels up by a key that covers far more than the hardware, and compile silently where it differs.
Triton's covers its own version, Inductor's also the name of an NVIDIA card and the version of CUDA, and the name of
vLLM's folder also model and configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

import msgspec

from accelkit.kernelcache.compatibility.node_facts import GpuFacts, WorkloadFacts
from accelkit.kernelcache.compatibility.reasons import Code, Reason
from accelkit.kernelcache.formats import ImageLabels


class Hit(StrEnum):
    """Whether kernels will be found: LIKELY when all that was compared agrees, ARCH_ONLY when some could not be."""

    LIKELY = "likely"
    ARCH_ONLY = "arch-only"
    MISS = "miss"
    UNKNOWN = "unknown"


class _Factor(msgspec.Struct, frozen=True):
    code: Code
    name: str
    offered: tuple[str, ...]
    wanted: str | None

    @property
    def known(self) -> bool:
        return bool(self.offered) and self.wanted is not None


def mismatches(labels: ImageLabels, gpu: GpuFacts, workload: WorkloadFacts) -> Iterator[Reason]:
    """Yield the factors of the key that are known to differ."""
    for factor in _factors(labels, gpu, workload):
        if factor.known and factor.wanted not in factor.offered:
            offered = ", ".join(factor.offered)
            yield Reason(factor.code, f"it was compiled with {factor.name} {offered}, and {factor.wanted} will be used")


def likelihood(labels: ImageLabels, gpu: GpuFacts, workload: WorkloadFacts, reasons: tuple[Reason, ...]) -> Hit:
    """Return how likely a hit is, given all reasons that were found."""
    codes = {reason.code for reason in reasons}
    keys = {Code.PRODUCT_MISMATCH, Code.TRITON_MISMATCH, Code.FRAMEWORK_MISMATCH}
    if any(reason.hard for reason in reasons) or codes & keys:
        return Hit.MISS
    if codes & {Code.UNKNOWN_GPU, Code.UNKNOWN_TARGET, Code.UNKNOWN_FORMAT}:
        return Hit.UNKNOWN
    factors = tuple(_factors(labels, gpu, workload))
    return Hit.LIKELY if factors and all(factor.known for factor in factors) else Hit.ARCH_ONLY


def _factors(labels: ImageLabels, gpu: GpuFacts, workload: WorkloadFacts) -> Iterator[_Factor]:
    if labels.format == "triton" or labels.triton_versions:
        yield _Factor(Code.TRITON_MISMATCH, "Triton", labels.triton_versions, workload.triton_version)
    if labels.format != "vllm":
        return
    if gpu.backend == "cuda":
        built_on = (labels.gpu_product,) if labels.gpu_product else ()
        yield _Factor(Code.PRODUCT_MISMATCH, "a card named", built_on, gpu.product or workload.gpu_product)
    if workload.cache_hash is not None:
        yield _Factor(Code.FRAMEWORK_MISMATCH, "the vLLM configuration", labels.hashes, workload.cache_hash)
    elif gpu.backend == "cuda":
        yield _Factor(Code.FRAMEWORK_MISMATCH, "CUDA", labels.cuda_versions, workload.cuda_version)
