"""Verdicts on whether a node's cards can use a cache, derived only from the labels of its image.

A hard reason means that kernels would fail to load: a different backend or architecture, a driver that is too old, or
launchers for a different CPU. Any other reason means at most that kernels are compiled again. If a fact is unknown and
there is no hard reason, the verdict is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from accelkit.kernelcache.compatibility.hit_likelihood import Factor, Hit, estimate_hit, find_mismatches, list_factors
from accelkit.kernelcache.compatibility.node_facts import GpuFacts, NodeHardware, WorkloadFacts
from accelkit.kernelcache.compatibility.ptx import (
    Version,
    can_load_ptx,
    find_driver_cuda,
    is_newer_than_table,
    parse_version,
)
from accelkit.kernelcache.compatibility.reasons import CompatibilityReason, ReasonCode
from accelkit.kernelcache.formats import FORMATS, ImageLabels, Target
from accelkit.kernelcache.formats.backends import Backend, find_backend
from accelkit.kernelcache.oci.platform import normalize_architecture

__all__ = [
    "CardVerdict",
    "CompatibilityReason",
    "CompatibilityVerdict",
    "CompatibilityVerdicts",
    "Factor",
    "Fit",
    "GpuFacts",
    "Hit",
    "NodeHardware",
    "ReasonCode",
    "WorkloadFacts",
    "judge",
]


class CompatibilityVerdict(StrEnum):
    """Whether a card can load the kernels."""

    COMPATIBLE = "compatible"
    INCOMPATIBLE = "incompatible"
    UNKNOWN = "unknown"


class Fit(StrEnum):
    """How many of a node's cards can load the kernels; UNKNOWN if no card is known to load them, but some might."""

    ALL = "all"
    SOME = "some"
    NONE = "none"
    UNKNOWN = "unknown"


class CardVerdict(msgspec.Struct, frozen=True):
    """The verdict for one card, with the reasons for the target that best matches the card.

    Attributes:
        id: the ID of the card.
        verdict: whether the card can load the kernels.
        reasons: why the card cannot load the kernels, or why the workload does not find them.
        hit: the likelihood that the workload finds the kernels.
        factors: the factors of that likelihood; empty if the card cannot load the kernels or the format is not
            supported.
    """

    id: str
    verdict: CompatibilityVerdict
    reasons: tuple[CompatibilityReason, ...]
    hit: Hit
    factors: tuple[Factor, ...] = ()


class CompatibilityVerdicts(msgspec.Struct, frozen=True):
    """The verdicts for the cards of a node; `reasons` apply to the node as a whole."""

    cards: tuple[CardVerdict, ...]
    reasons: tuple[CompatibilityReason, ...] = ()

    @property
    def fit(self) -> Fit:
        """The verdict for the node as a whole."""
        verdicts = {card.verdict for card in self.cards}
        if CompatibilityVerdict.COMPATIBLE in verdicts:
            return Fit.ALL if len(verdicts) == 1 else Fit.SOME
        if CompatibilityVerdict.UNKNOWN in verdicts or any(not reason.hard for reason in self.reasons):
            return Fit.UNKNOWN
        return Fit.NONE


def judge(labels: ImageLabels, node: NodeHardware, workload: WorkloadFacts | None = None) -> CompatibilityVerdicts:
    """Return, for each card of a node, the verdict on whether it can load the kernels of an image."""
    if node.gpus is None:
        return CompatibilityVerdicts(
            (), (CompatibilityReason(ReasonCode.UNKNOWN_GPU, "the cards of the node are unknown"),)
        )
    if not node.gpus:
        return CompatibilityVerdicts((), (CompatibilityReason(ReasonCode.NO_GPU, "the node has no card", hard=True),))
    return CompatibilityVerdicts(
        tuple(_judge_card(labels, node, gpu, workload or WorkloadFacts()) for gpu in node.gpus)
    )


def _judge_card(labels: ImageLabels, node: NodeHardware, gpu: GpuFacts, workload: WorkloadFacts) -> CardVerdict:
    if labels.format not in FORMATS:
        reason = CompatibilityReason(ReasonCode.UNKNOWN_FORMAT, f"the cache format {labels.format!r} is not supported")
        return CardVerdict(gpu.id, CompatibilityVerdict.UNKNOWN, (reason,), Hit.UNKNOWN)
    cpu = tuple(_compare_cpu(labels, node))
    candidates = [(*cpu, *_compare_target(target, gpu)) for target in labels.targets]
    candidates = candidates or [
        (*cpu, CompatibilityReason(ReasonCode.UNKNOWN_TARGET, "the image does not state its target"))
    ]
    nearest = min(candidates, key=_rank)
    verdict = _summarize(nearest)
    factors = tuple(list_factors(labels, gpu, workload)) if verdict is not CompatibilityVerdict.INCOMPATIBLE else ()
    reasons = (*nearest, *find_mismatches(factors))
    return CardVerdict(gpu.id, verdict, reasons, estimate_hit(factors, reasons), factors)


def _summarize(reasons: Iterable[CompatibilityReason]) -> CompatibilityVerdict:
    found = tuple(reasons)
    if any(reason.hard for reason in found):
        return CompatibilityVerdict.INCOMPATIBLE
    return (
        CompatibilityVerdict.UNKNOWN
        if any(reason.code.leaves_unknown for reason in found)
        else CompatibilityVerdict.COMPATIBLE
    )


def _rank(reasons: tuple[CompatibilityReason, ...]) -> tuple[int, bool, bool, int]:
    codes = {reason.code for reason in reasons}
    rank = (CompatibilityVerdict.COMPATIBLE, CompatibilityVerdict.UNKNOWN, CompatibilityVerdict.INCOMPATIBLE).index(
        _summarize(reasons)
    )
    return rank, ReasonCode.BACKEND_MISMATCH in codes, ReasonCode.ARCH_MISMATCH in codes, len(reasons)


def _compare_cpu(labels: ImageLabels, node: NodeHardware) -> Iterator[CompatibilityReason]:
    if (built := labels.cpu_architecture) is None:
        return
    if node.cpu_architecture is None:
        yield CompatibilityReason(
            ReasonCode.CPU_ARCH_UNKNOWN,
            f"the launchers of the cache require {built}, but the node's CPU architecture is unknown",
        )
    elif normalize_architecture(built) != normalize_architecture(node.cpu_architecture):
        yield CompatibilityReason(
            ReasonCode.CPU_ARCH_MISMATCH,
            f"the launchers of the cache require {built}, but the node is {node.cpu_architecture}",
            hard=True,
        )


def _compare_target(target: Target, gpu: GpuFacts) -> Iterator[CompatibilityReason]:
    if gpu.backend is None:
        yield CompatibilityReason(ReasonCode.UNKNOWN_GPU, "the backend of the card is unknown")
        return
    backend = find_backend(target.backend)
    if backend != find_backend(gpu.backend):
        message = f"the cache was compiled for {target.backend}, but the card is {gpu.backend}"
        yield CompatibilityReason(ReasonCode.BACKEND_MISMATCH, message, hard=True)
        return
    if backend.names_architecture or target.arch is not None:
        yield from _compare_architecture(backend, target, gpu)
    yield from _compare_warp_size(backend, target, gpu)
    if backend.cuda_toolkit:
        yield from _compare_driver(target, gpu)


def _compare_architecture(backend: Backend, target: Target, gpu: GpuFacts) -> Iterator[CompatibilityReason]:
    if target.arch is None:
        message = "the image does not state the architecture for which the cache was compiled"
        yield CompatibilityReason(ReasonCode.UNKNOWN_TARGET, message)
    elif gpu.arch is None:
        message = f"the cache was compiled for {target.arch}, but the card's architecture is unknown"
        yield CompatibilityReason(ReasonCode.UNKNOWN_GPU, message)
    elif not backend.is_same_architecture(target.arch, gpu.arch):
        message = f"the cache was compiled for {target.arch}, but the card is {gpu.arch}"
        yield CompatibilityReason(ReasonCode.ARCH_MISMATCH, message, hard=True)


def _compare_warp_size(backend: Backend, target: Target, gpu: GpuFacts) -> Iterator[CompatibilityReason]:
    if target.warp_size is None:
        return
    # The warp size is only a hint: newer AMD cards support both sizes, and MCV writes 64 for all AMD cards.
    usual = backend.find_warp_size(gpu.arch)
    if usual is not None and usual != target.warp_size:
        message = f"the cache was compiled for {target.warp_size} threads per warp, but this card usually has {usual}"
        yield CompatibilityReason(ReasonCode.WARP_SIZE_MISMATCH, message)


def _compare_driver(target: Target, gpu: GpuFacts) -> Iterator[CompatibilityReason]:
    if target.cuda_version is None and target.ptx_version is None:
        return
    driver = parse_version(gpu.cuda_version) or find_driver_cuda(gpu.driver_version)
    if driver is None:
        yield CompatibilityReason(
            ReasonCode.DRIVER_UNKNOWN, "the cache needs a minimum driver version, but the card's driver is unknown"
        )
        return
    at_least = gpu.cuda_version is None and is_newer_than_table(gpu.driver_version)
    for reason in (*_compare_toolkit(target.cuda_version, driver), *_compare_ptx(target.ptx_version, driver)):
        if reason.hard and at_least:
            known = _format_version(driver)
            message = f"the cache needs more than CUDA {known}, but the CUDA of driver {gpu.driver_version} is unknown"
            yield CompatibilityReason(ReasonCode.DRIVER_UNKNOWN, message)
        else:
            yield reason


def _compare_ptx(ptx_version: int | None, driver: Version) -> Iterator[CompatibilityReason]:
    if ptx_version is None:
        return
    loads, needed = can_load_ptx(ptx_version, driver), f"{ptx_version // 10}.{ptx_version % 10}"
    if loads is None:
        yield CompatibilityReason(
            ReasonCode.DRIVER_UNKNOWN,
            f"the cache needs PTX ISA {needed}, but the PTX ISA of CUDA {_format_version(driver)} is unknown",
        )
    elif not loads:
        yield CompatibilityReason(
            ReasonCode.PTX_TOO_NEW,
            f"the cache needs PTX ISA {needed}, but the driver supports only CUDA {_format_version(driver)}",
            hard=True,
        )


def _compare_toolkit(cuda_version: str | None, driver: Version) -> Iterator[CompatibilityReason]:
    if cuda_version is None:
        return
    toolkit = parse_version(cuda_version)
    if toolkit is None:
        yield CompatibilityReason(
            ReasonCode.UNKNOWN_TARGET,
            f"the image states the CUDA toolkit {cuda_version!r}, which is not a valid version",
        )
    elif toolkit[0] > driver[0]:
        # Drivers load kernels from newer toolkits with the same major version.
        yield CompatibilityReason(
            ReasonCode.TOOLKIT_MISMATCH,
            f"the cache was compiled with CUDA {cuda_version}, but the driver supports CUDA {_format_version(driver)}",
            hard=True,
        )


def _format_version(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
