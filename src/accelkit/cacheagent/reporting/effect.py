"""Effectiveness of caches: whether workloads find their kernels, and which files workloads create otherwise."""

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
    """Kind of a file that a workload created, derived from its folder."""

    TRITON = "triton"
    VLLM = "vllm"
    OTHER = "other"


@dataclass(frozen=True)
class MissedFiles:
    """Files that a pod created in its private copies after the copies were filled.

    Attributes:
        files: number of created files.
        kinds: number of created files for each kind.
        new_folders: number of folders that the pod created in vLLM's cache, one for each missing key.
        bounded: whether the scan reached its limit.
    """

    files: int = 0
    kinds: Mapping[MissKind, int] = field(default_factory=dict)
    new_folders: int = 0
    bounded: bool = False

    @property
    def known(self) -> bool:
        """Whether the result is conclusive. An incomplete scan without new files does not prove cache hits."""
        return bool(self.files) or not self.bounded

    def add(self, other: MissedFiles) -> MissedFiles:
        """Return the combined results for two copies of one pod."""
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
    """Return the files that pods created, keyed by cache key and pod UID. Pods without conclusive results are omitted.

    Args:
        found: created files, keyed by pod UID and by the volume name of the copy.
        desired_caches: desired state of each cache, keyed by cache key.
        usage: pods that use each cache, keyed by cache key.
    """
    missed: dict[str, dict[str, MissedFiles]] = {}
    for key, own in usage.items():
        for pod in {pod.uid: pod for pods in own.pods.values() for pod in pods}.values():
            copies = [copy for copy, claim in pod.copies.items() if owns_claim(desired_caches[key], claim)]
            scanned = [found[pod.uid, copy] for copy in copies if (pod.uid, copy) in found]
            total = reduce(MissedFiles.add, scanned, MissedFiles())
            if scanned and total.known:
                missed.setdefault(key, {})[pod.uid] = total
    return missed


def has_copy(pod: MountingPod, desired: DesiredCache) -> bool:
    """Return whether a pod has a private copy of a cache."""
    return any(owns_claim(desired, claim) for claim in pod.copies.values())


def find_differing(pods: Iterable[MountingPod], desired: DesiredCache, recorded: Mapping[str, str]) -> list[str] | None:
    """Return the names of variables with values in pods that differ from the recorded values; None if unknown.

    Args:
        pods: pods that created a folder in vLLM's cache.
        desired: desired state of the cache.
        recorded: variables that were recorded when the cache was created.
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
    measured: Sequence[tuple[str, MissedFiles]], unscanned: int = 0, differing: Sequence[str] | None = None
) -> Condition:
    """Return the condition `Effective` for a digest, based on the files that pods created in private copies.

    Args:
        measured: name and created files of each pod with a scanned copy.
        unscanned: number of pods without a scanned copy.
        differing: names of variables with different values in pods with misses; None if they are unknown.
    """
    kind = ConditionType.EFFECTIVE
    measured = [(name, each) for name, each in measured if each.known]
    if not measured:
        text = "no pod has a private copy that was scanned"
        if unscanned:
            text = f"pods with private copies that were not scanned: {unscanned}; see the log of cache-scan on the node"
        return state(kind, Reason.NOT_MEASURED, text, holds=None)
    missing = [(name, each) for name, each in measured if each.files]
    if not missing:
        return state(kind, Reason.HITS, f"pods that have created no files: {len(measured)}", holds=True)
    total = reduce(MissedFiles.add, (each for _, each in missing), MissedFiles())
    names = ", ".join(f"{name} ({each.files})" for name, each in sorted(missing)[:_NAMED_PODS])
    at_least = "at least " if total.bounded else ""
    text = f"{len(missing)} of {len(measured)} pods created {at_least}{total.files} files: {names}"
    return state(kind, Reason.MISSES, f"{text}; {_explain(total, differing)}", holds=False)


def _explain(missed: MissedFiles, differing: Sequence[str] | None) -> str:
    if missed.new_folders:
        return f"{missed.new_folders} new folders in vLLM's cache: the key differs, {_explain_key(differing)}"
    if missed.kinds.get(MissKind.VLLM):
        return "files in existing folders of vLLM's cache: missing shapes or subgraphs"
    if missed.kinds.get(MissKind.TRITON):
        return "Triton kernels: different version of Triton or its compiler, different card, or missing kernels"
    return "files in folders that no supported framework uses"


def _explain_key(differing: Sequence[str] | None) -> str:
    others = "the path of the model, an address of the pod, or the version of vLLM or of the driver"
    if differing:
        return f"probably because pods set {list_some(differing)} to different values than at capture"
    # Values from ConfigMaps, Secrets and container images are unknown.
    variable = "a VLLM_* variable" if differing is None else "a VLLM_* variable without a literal value in the pod"
    return f"possibly because of {variable}, {others}"
