"""Whether workloads find their kernels in a cache: what they had to make themselves, and why, as far as that shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from accelkit.gkm.conditions import Condition, ConditionType, Reason, state

_NAMED_PODS: Final = 5


class MissKind(StrEnum):
    """What a file is that a workload made itself, by where it lies."""

    TRITON = "triton"
    VLLM = "vllm"
    OTHER = "other"


@dataclass(frozen=True)
class MissedFiles:
    """What a pod made in its private copies after they were filled.

    Attributes:
        files: how many.
        kinds: how many of each.
        new_folders: folders of vLLM's cache that it made; each is another key than those in the cache.
        bounded: whether it made more than were counted.
    """

    files: int = 0
    kinds: Mapping[MissKind, int] = field(default_factory=dict)
    new_folders: int = 0
    bounded: bool = False

    def add(self, other: MissedFiles) -> MissedFiles:
        """Return what was made in two copies of one pod."""
        kinds = {kind: self.kinds.get(kind, 0) + other.kinds.get(kind, 0) for kind in MissKind}
        return MissedFiles(
            self.files + other.files,
            {kind: count for kind, count in kinds.items() if count},
            self.new_folders + other.new_folders,
            bounded=self.bounded or other.bounded,
        )


def describe_effect(measured: Sequence[tuple[str, MissedFiles]]) -> Condition:
    """Return whether the workloads of a digest hit, from what its pods made themselves; not of those without a copy."""
    kind = ConditionType.EFFECTIVE
    if not measured:
        return state(kind, Reason.NOT_MEASURED, "no pod has a private copy that was looked at", holds=None)
    missing = [(name, each) for name, each in measured if each.files]
    if not missing:
        return state(kind, Reason.HITS, f"{len(measured)} pods have made no file of their own so far", holds=True)
    total = MissedFiles()
    for _, each in missing:
        total = total.add(each)
    names = ", ".join(f"{name} ({each.files})" for name, each in sorted(missing)[:_NAMED_PODS])
    at_least = "at least " if total.bounded else ""
    told = f"{len(missing)} of {len(measured)} pods made {at_least}{total.files} files themselves: {names}"
    return state(kind, Reason.MISSES, f"{told}; {_explain(total)}", holds=False)


def _explain(missed: MissedFiles) -> str:
    if missed.new_folders:
        return (
            f"{missed.new_folders} new folders of vLLM's cache: its key differs, as by a VLLM_* variable, the model's "
            "path, an address of the pod, or another version of vLLM or of the driver"
        )
    if missed.kinds.get(MissKind.VLLM):
        return "files in folders of vLLM's cache that were there: shapes or subgraphs that it lacks"
    if missed.kinds.get(MissKind.TRITON):
        return "kernels of Triton: another version of Triton or of its compiler, another card, or kernels that it lacks"
    return "they lie where no framework that is known here keeps its kernels"
