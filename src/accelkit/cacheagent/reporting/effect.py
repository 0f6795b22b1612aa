"""Whether workloads find their kernels in a cache: what they had to make themselves, and why, as far as that shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce
from typing import Final

from accelkit.cacheagent.planning.desired_caches import DesiredCache
from accelkit.cacheagent.planning.observed import MountingPod
from accelkit.cacheagent.planning.usage import Usage, owns_claim
from accelkit.gkm.conditions import Condition, ConditionType, Reason, state
from accelkit.kernelcache.formats.recorded import list_differing
from accelkit.texts import list_some

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
        bounded: whether there was more than was looked at.
    """

    files: int = 0
    kinds: Mapping[MissKind, int] = field(default_factory=dict)
    new_folders: int = 0
    bounded: bool = False

    @property
    def known(self) -> bool:
        """Whether it says anything: where too much lies to be looked at, none found does not mean none made."""
        return bool(self.files) or not self.bounded

    def add(self, other: MissedFiles) -> MissedFiles:
        """Return what was made in two copies of one pod."""
        kinds = {kind: self.kinds.get(kind, 0) + other.kinds.get(kind, 0) for kind in MissKind}
        return MissedFiles(
            self.files + other.files,
            {kind: count for kind, count in kinds.items() if count},
            self.new_folders + other.new_folders,
            bounded=self.bounded or other.bounded,
        )


def assign_missed(
    found: Mapping[tuple[str, str], MissedFiles], desired_caches: Mapping[str, DesiredCache], usage: Mapping[str, Usage]
) -> dict[str, dict[str, MissedFiles]]:
    """Return what pods made beside each cache, by its key and the UID of the pod; without what nobody could count.

    Args:
        found: by the UID of the pod and the volume of the copy.
        desired_caches: of the caches, by key.
        usage: the pods of each cache.
    """
    missed: dict[str, dict[str, MissedFiles]] = {}
    for key, own in usage.items():
        for pod in {pod.uid: pod for pods in own.pods.values() for pod in pods}.values():
            copies = [copy for copy, claim in pod.copies.items() if owns_claim(desired_caches[key], claim)]
            looked_at = [found[pod.uid, copy] for copy in copies if (pod.uid, copy) in found]
            total = reduce(MissedFiles.add, looked_at, MissedFiles())
            if looked_at and total.known:
                missed.setdefault(key, {})[pod.uid] = total
    return missed


def has_copy(pod: MountingPod, desired: DesiredCache) -> bool:
    """Return whether a pod has a private copy of a cache."""
    return any(owns_claim(desired, claim) for claim in pod.copies.values())


def find_differing(pods: Iterable[MountingPod], desired: DesiredCache, recorded: Mapping[str, str]) -> list[str] | None:
    """Return the names of variables that pods set otherwise than when a cache was captured; None where nobody can say.

    Args:
        pods: that made a folder of vLLM's cache themselves.
        desired: the cache.
        recorded: variables under which it was captured.
    """
    own = [
        variables
        for pod in pods
        for copy, claim in pod.copies.items()
        if owns_claim(desired, claim)
        for variables in pod.variables.get(copy, ())
    ]
    return sorted({name for each in own for name in list_differing(recorded, each)}) if recorded else None


def describe_effect(
    measured: Sequence[tuple[str, MissedFiles]], unseen: int = 0, differing: Sequence[str] | None = None
) -> Condition:
    """Return whether the workloads of a digest hit, from what its pods made themselves; not of those without a copy.

    Args:
        measured: name and files of each pod whose copy was looked at.
        unseen: how many pods have copies that were not.
        differing: names of variables that pods which miss set otherwise; None where nobody can say.
    """
    kind = ConditionType.EFFECTIVE
    measured = [(name, each) for name, each in measured if each.known]
    if not measured:
        told = "no pod has a private copy that was looked at"
        if unseen:
            told = (
                f"{unseen} pods have private copies that were not looked at; the log of the node's cache-scan says more"
            )
        return state(kind, Reason.NOT_MEASURED, told, holds=None)
    missing = [(name, each) for name, each in measured if each.files]
    if not missing:
        return state(kind, Reason.HITS, f"{len(measured)} pods have made no file of their own so far", holds=True)
    total = reduce(MissedFiles.add, (each for _, each in missing), MissedFiles())
    names = ", ".join(f"{name} ({each.files})" for name, each in sorted(missing)[:_NAMED_PODS])
    at_least = "at least " if total.bounded else ""
    told = f"{len(missing)} of {len(measured)} pods made {at_least}{total.files} files themselves: {names}"
    return state(kind, Reason.MISSES, f"{told}; {_explain(total, differing)}", holds=False)


def _explain(missed: MissedFiles, differing: Sequence[str] | None) -> str:
    if missed.new_folders:
        return f"{missed.new_folders} new folders of vLLM's cache: its key differs, {_explain_key(differing)}"
    if missed.kinds.get(MissKind.VLLM):
        return "files in folders of vLLM's cache that were there: shapes or subgraphs that it lacks"
    if missed.kinds.get(MissKind.TRITON):
        return "kernels of Triton: another version of Triton or of its compiler, another card, or kernels that it lacks"
    return "they lie where no framework that is known here keeps its kernels"


def _explain_key(differing: Sequence[str] | None) -> str:
    others = "the model's path, an address of the pod, or another version of vLLM or of the driver"
    if differing:
        return f"likely since pods set {list_some(differing)} otherwise than when it was captured"
    # What comes from ConfigMaps, Secrets and the pod's image is not seen.
    variable = "a VLLM_* variable" if differing is None else "a VLLM_* variable that pods do not set in so many words"
    return f"as by {variable}, {others}"
