"""Likelihood that a workload finds its kernels in a cache that its card can load.

Frameworks look kernels up by a key that covers far more than the hardware, and compile silently where it differs.
Triton's covers its own version, Inductor's also the name of an NVIDIA card and the version of CUDA, and the name of
vLLM's folder also model and configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from accelkit.kernelcache.compatibility.node_facts import GpuFacts, WorkloadFacts
from accelkit.kernelcache.compatibility.reasons import CompatibilityReason, ReasonCode
from accelkit.kernelcache.formats import ImageLabels


class Hit(StrEnum):
    """Whether kernels will be found: LIKELY when all that was compared agrees, ARCH_ONLY when some could not be."""

    LIKELY = "likely"
    ARCH_ONLY = "arch-only"
    MISS = "miss"
    UNKNOWN = "unknown"


_IN_SENTENCES = {"card": "a card named", "vLLM configuration": "the vLLM configuration"}


class Factor(msgspec.Struct, frozen=True):
    """One part of a framework's key that labels can tell.

    Attributes:
        code: what a difference is called.
        name: `Triton`, `CUDA`….
        offered: what the image says that it was compiled with; empty where it does not say.
        wanted: what will be used; None where that is not known.
    """

    code: ReasonCode
    name: str
    offered: tuple[str, ...]
    wanted: str | None

    @property
    def agrees(self) -> bool | None:
        """Whether both are the same; None where one of them is not known."""
        return self.wanted in self.offered if self.offered and self.wanted is not None else None

    @property
    def message(self) -> str:
        """The factor as a sentence."""
        what = _IN_SENTENCES.get(self.name, self.name)
        if not self.offered:
            return f"the image does not say with which {self.name} it was compiled"
        if self.wanted is None:
            return f"it was compiled with {what} {', '.join(self.offered)}, and which will be used is not known"
        if self.agrees:
            return f"it was compiled with {what} {self.wanted}, as will be used"
        return f"it was compiled with {what} {', '.join(self.offered)}, and {self.wanted} will be used"


def find_mismatches(factors: Iterable[Factor]) -> Iterator[CompatibilityReason]:
    """Yield the factors of the key that are known to differ, as reasons."""
    for factor in factors:
        if factor.agrees is False:
            yield CompatibilityReason(factor.code, factor.message)


def estimate_hit(factors: tuple[Factor, ...], reasons: tuple[CompatibilityReason, ...]) -> Hit:
    """Return how likely a hit is, given the factors of the key and all reasons that were found."""
    codes = {reason.code for reason in reasons}
    keys = {ReasonCode.PRODUCT_MISMATCH, ReasonCode.TRITON_MISMATCH, ReasonCode.FRAMEWORK_MISMATCH}
    if any(reason.hard for reason in reasons) or codes & keys:
        return Hit.MISS
    if codes & {ReasonCode.UNKNOWN_GPU, ReasonCode.UNKNOWN_TARGET, ReasonCode.UNKNOWN_FORMAT}:
        return Hit.UNKNOWN
    return Hit.LIKELY if factors and all(factor.agrees for factor in factors) else Hit.ARCH_ONLY


def list_factors(labels: ImageLabels, gpu: GpuFacts, workload: WorkloadFacts) -> Iterator[Factor]:
    """Yield what decides whether a format's kernels are found on a card that can load them."""
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
