"""Whether a node's cards can use a cache, judged from its image's labels alone.

Hard reasons are those for which loading would fail: another backend or architecture, a driver that is too old,
launchers for another CPU. Soft ones cost a compilation at most. What is not known makes a verdict unknown, never good
or bad.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

import msgspec

from accelkit.kernelcache.compatibility.hits import Factor, Hit, factors_of, likelihood, mismatches
from accelkit.kernelcache.compatibility.node_facts import GpuFacts, NodeFacts, WorkloadFacts
from accelkit.kernelcache.compatibility.ptx import Version, cuda_of_driver, loads_ptx, newer_than_known, parse_version
from accelkit.kernelcache.compatibility.reasons import Code, Reason
from accelkit.kernelcache.formats import FORMATS, ImageLabels, Target

__all__ = [
    "CardVerdict",
    "Code",
    "Factor",
    "Fit",
    "GpuFacts",
    "Hit",
    "NodeFacts",
    "Reason",
    "Verdict",
    "Verdicts",
    "WorkloadFacts",
    "judge",
]

_BACKENDS: Final = {"rocm": "hip", "level-zero": "xpu", "level_zero": "xpu"}
_CPU_NAMES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


class Verdict(StrEnum):
    """Whether a card can load the kernels."""

    COMPATIBLE = "compatible"
    INCOMPATIBLE = "incompatible"
    UNKNOWN = "unknown"


class Fit(StrEnum):
    """How many of a node's cards can; UNKNOWN where none is known to, and not all are known not to."""

    ALL = "all"
    SOME = "some"
    NONE = "none"
    UNKNOWN = "unknown"


class CardVerdict(msgspec.Struct, frozen=True):
    """The verdict on one card, with the reasons of the target that comes nearest to it.

    Attributes:
        id: of the card.
        verdict: whether it can load the kernels.
        reasons: why not, or why the kernels are not found.
        hit: how likely they are found.
        factors: what that was judged by; empty where the card cannot load them or the format is unknown.
    """

    id: str
    verdict: Verdict
    reasons: tuple[Reason, ...]
    hit: Hit
    factors: tuple[Factor, ...] = ()


class Verdicts(msgspec.Struct, frozen=True):
    """The verdicts on a node's cards; `reasons` are those that concern the node as a whole."""

    cards: tuple[CardVerdict, ...]
    reasons: tuple[Reason, ...] = ()

    @property
    def fit(self) -> Fit:
        """The node in one word."""
        found = {card.verdict for card in self.cards}
        if Verdict.COMPATIBLE in found:
            return Fit.ALL if len(found) == 1 else Fit.SOME
        if Verdict.UNKNOWN in found or any(not reason.hard for reason in self.reasons):
            return Fit.UNKNOWN
        return Fit.NONE


def judge(labels: ImageLabels, node: NodeFacts, workload: WorkloadFacts | None = None) -> Verdicts:
    """Judge an image against every card of a node."""
    if node.gpus is None:
        return Verdicts((), (Reason(Code.UNKNOWN_GPU, "the cards of the node are not known"),))
    if not node.gpus:
        return Verdicts((), (Reason(Code.NO_GPU, "the node has no card", hard=True),))
    return Verdicts(tuple(_judge_card(labels, node, gpu, workload or WorkloadFacts()) for gpu in node.gpus))


def _judge_card(labels: ImageLabels, node: NodeFacts, gpu: GpuFacts, workload: WorkloadFacts) -> CardVerdict:
    if labels.format not in FORMATS:
        reason = Reason(Code.UNKNOWN_FORMAT, f"caches of the format {labels.format!r} are not known here")
        return CardVerdict(gpu.id, Verdict.UNKNOWN, (reason,), Hit.UNKNOWN)
    cpu = tuple(_cpu(labels, node))
    candidates = [(*cpu, *_target(target, gpu)) for target in labels.targets]
    candidates = candidates or [(*cpu, Reason(Code.UNKNOWN_TARGET, "the image does not say what it was compiled for"))]
    nearest = min(candidates, key=_distance)
    verdict = _verdict(nearest)
    factors = tuple(factors_of(labels, gpu, workload)) if verdict is not Verdict.INCOMPATIBLE else ()
    reasons = (*nearest, *mismatches(factors))
    return CardVerdict(gpu.id, verdict, reasons, likelihood(factors, reasons), factors)


def _verdict(reasons: Iterable[Reason]) -> Verdict:
    found = tuple(reasons)
    if any(reason.hard for reason in found):
        return Verdict.INCOMPATIBLE
    return Verdict.UNKNOWN if any(reason.code.leaves_unknown for reason in found) else Verdict.COMPATIBLE


def _distance(reasons: tuple[Reason, ...]) -> tuple[int, bool, bool, int]:
    codes = {reason.code for reason in reasons}
    rank = (Verdict.COMPATIBLE, Verdict.UNKNOWN, Verdict.INCOMPATIBLE).index(_verdict(reasons))
    return rank, Code.BACKEND_MISMATCH in codes, Code.ARCH_MISMATCH in codes, len(reasons)


def _cpu(labels: ImageLabels, node: NodeFacts) -> Iterator[Reason]:
    if (built := labels.cpu_architecture) is None:
        return
    if node.cpu_architecture is None:
        yield Reason(Code.CPU_ARCH_UNKNOWN, f"its launchers run on {built} hosts, and the node's CPU is not known")
    elif _cpu_name(built) != _cpu_name(node.cpu_architecture):
        yield Reason(
            Code.CPU_ARCH_MISMATCH, f"its launchers run on {built}, and the node is {node.cpu_architecture}", hard=True
        )


def _cpu_name(name: str) -> str:
    return _CPU_NAMES.get(name.lower(), name.lower())


def _target(target: Target, gpu: GpuFacts) -> Iterator[Reason]:
    if gpu.backend is None:
        yield Reason(Code.UNKNOWN_GPU, "the card's kind is not known")
        return
    backend = _backend(target.backend)
    if backend != _backend(gpu.backend):
        yield Reason(
            Code.BACKEND_MISMATCH, f"it was compiled for {target.backend}, and the card is {gpu.backend}", hard=True
        )
        return
    # Habana's recipes do not tell for which Gaudi they are.
    if backend != "hpu" or target.arch is not None:
        yield from _architecture(backend, target, gpu)
    yield from _warp_size(backend, target, gpu)
    if backend == "cuda":
        yield from _driver(target, gpu)


def _backend(name: str) -> str:
    return _BACKENDS.get(name.lower(), name.lower())


def _architecture(backend: str, target: Target, gpu: GpuFacts) -> Iterator[Reason]:
    if target.arch is None:
        yield Reason(Code.UNKNOWN_TARGET, "the image does not say for which architecture it was compiled")
    elif gpu.arch is None:
        yield Reason(Code.UNKNOWN_GPU, f"it was compiled for {target.arch}, and the card's architecture is not known")
    elif not _same_architecture(backend, target.arch, gpu.arch):
        yield Reason(Code.ARCH_MISMATCH, f"it was compiled for {target.arch}, and the card is {gpu.arch}", hard=True)


def _same_architecture(backend: str, built: str, present: str) -> bool:
    """Compare exactly: a cubin may run on a newer minor, but the cache is keyed by this name and would never hit."""
    if backend == "cuda":
        return _bare(built) == _bare(present)
    base, _, features = built.lower().partition(":")
    other, _, others = present.lower().partition(":")
    wanted, given = _features(features), _features(others)
    return base == other and all(given[name] == wanted[name] for name in wanted.keys() & given.keys())


def _bare(arch: str) -> str:
    """Return `90a` of `sm_90a` and `90` of `9.0`; the letter stays, since such kernels are for that card only."""
    return arch.lower().removeprefix("sm").removeprefix("_").replace(".", "")


def _features(text: str) -> dict[str, str]:
    """Return the sign of each feature in `sramecc+:xnack-`."""
    return {feature[:-1]: feature[-1] for feature in text.split(":") if feature[-1:] in {"+", "-"}}


def _warp_size(backend: str, target: Target, gpu: GpuFacts) -> Iterator[Reason]:
    if target.warp_size is None:
        return
    # No more than a hint: AMD's newer cards do both, and MCV writes 64 for all of them.
    usual = _usual_warp_size(backend, gpu.arch)
    if usual is not None and usual != target.warp_size:
        message = f"it was compiled for {target.warp_size} threads in step, and such a card usually has {usual}"
        yield Reason(Code.WARP_SIZE_MISMATCH, message)


def _usual_warp_size(backend: str, arch: str | None) -> int | None:
    if backend == "cuda":
        return 32
    if backend == "hip" and arch is not None:
        return 64 if arch.startswith("gfx9") else 32
    return None


def _driver(target: Target, gpu: GpuFacts) -> Iterator[Reason]:
    if target.cuda_version is None and target.ptx_version is None:
        return
    driver = parse_version(gpu.cuda_version) or cuda_of_driver(gpu.driver_version)
    if driver is None:
        yield Reason(Code.DRIVER_UNKNOWN, "it needs a driver of some age, and the card's is not known")
        return
    at_least = gpu.cuda_version is None and newer_than_known(gpu.driver_version)
    for reason in (*_toolkit(target.cuda_version, driver), *_ptx(target.ptx_version, driver)):
        if reason.hard and at_least:
            message = f"it needs more than CUDA {_text(driver)}, and nothing is known of driver {gpu.driver_version}"
            yield Reason(Code.DRIVER_UNKNOWN, message)
        else:
            yield reason


def _ptx(ptx_version: int | None, driver: Version) -> Iterator[Reason]:
    if ptx_version is None:
        return
    loads, needed = loads_ptx(ptx_version, driver), f"{ptx_version // 10}.{ptx_version % 10}"
    if loads is None:
        yield Reason(Code.DRIVER_UNKNOWN, f"it needs PTX ISA {needed}, and nothing is known of CUDA {_text(driver)}")
    elif not loads:
        yield Reason(
            Code.PTX_TOO_NEW, f"it needs PTX ISA {needed}, newer than the driver's CUDA {_text(driver)}", hard=True
        )


def _toolkit(cuda_version: str | None, driver: Version) -> Iterator[Reason]:
    if cuda_version is None:
        return
    toolkit = parse_version(cuda_version)
    if toolkit is None:
        yield Reason(Code.UNKNOWN_TARGET, f"the image names the CUDA toolkit {cuda_version!r}, which is no version")
    elif toolkit[0] > driver[0]:
        # Within a major version, drivers load what newer toolkits compiled.
        yield Reason(
            Code.TOOLKIT_MISMATCH,
            f"it was compiled with CUDA {cuda_version}, and the driver supports CUDA {_text(driver)}",
            hard=True,
        )


def _text(version: Version) -> str:
    return f"{version[0]}.{version[1]}"
