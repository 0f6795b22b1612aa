"""Conditions of caches: what each says, why, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from accelkit.texts import shorten

MAX_MESSAGE: Final = 1024


class ConditionType(StrEnum):
    """What a condition is about.

    RESOLVED: the image has a digest. VERIFIED: somebody whom the policies name signed it. COMPATIBLE: cards can load
    it. EXTRACTED: its files lie where pods get them. READY: pods may use it; of a whole cache: on at least one node, or
    in each namespace, and it failed nowhere. OUTDATED: pods use a former digest. EFFECTIVE: workloads find their
    kernels in it. DEGRADED: it failed somewhere, whether or not it is ready elsewhere.
    """

    RESOLVED = "Resolved"
    VERIFIED = "Verified"
    COMPATIBLE = "Compatible"
    EXTRACTED = "Extracted"
    READY = "Ready"
    OUTDATED = "Outdated"
    EFFECTIVE = "Effective"
    DEGRADED = "Degraded"


class Reason(StrEnum):
    """Why a condition is as it is; beside these, the reasons of verdicts on signatures and cards."""

    RESOLVED = "Resolved"
    VERIFIED = "Verified"
    COMPATIBLE = "Compatible"
    PARTLY_COMPATIBLE = "PartlyCompatible"
    INCOMPATIBLE = "Incompatible"
    NO_CARDS = "NoCards"
    EXTRACTING = "Extracting"
    EXTRACTED = "Extracted"
    READY = "Ready"
    PENDING = "Pending"
    RETRYING = "Retrying"
    INVALID_IMAGE = "InvalidImage"
    INVALID_SPEC = "InvalidSpec"
    NOT_COVERED = "NotCovered"
    REGISTRY_UNAVAILABLE = "RegistryUnavailable"
    PULL_SECRET_UNREADABLE = "PullSecretUnreadable"  # noqa: S105 - a reason
    POLICY_UNREADABLE = "PolicyUnreadable"
    NAMESPACE_MISSING = "NamespaceMissing"
    NO_NAMESPACES = "NoWorkloadNamespaces"
    CLAIM_EXISTS = "ClaimExists"
    ACCESS_MODE_UNSUPPORTED = "AccessModeUnsupported"
    NODE_FULL = "NodeFull"
    OVER_BUDGET = "OverBudget"
    EXTRACTION_FAILED = "ExtractionFailed"
    FILL_FAILED = "FillFailed"
    NOT_RELOCATABLE = "NotRelocatable"
    IN_USE = "InUse"
    DELETING = "Deleting"
    OUTDATED = "Outdated"
    CURRENT = "Current"
    HITS = "Hits"
    MISSES = "Misses"
    NOT_MEASURED = "NotMeasured"
    FAILED_ON_NODES = "FailedOnNodes"
    CONTENT_CHANGED = "ContentChanged"
    IMAGE_VOLUMES_UNSUPPORTED = "ImageVolumesUnsupported"
    # Pods would mount, or mount, a claim writable, whose files all pods share.
    WRITABLE_POD = "WritablePod"
    # As ClaimExists, while claims of ours are still there: only then may admission policies leave the name alone.
    CLAIM_TAKEN = "ClaimTaken"
    NOT_BOUND = "NotBound"
    TRUST_ROOT_UNAVAILABLE = "TrustRootUnavailable"


# Nothing failed so far.
UNDER_WAY: Final = frozenset({Reason.PENDING, Reason.EXTRACTING, Reason.RETRYING})
# Nobody could ask, so nothing was learnt.
UNDECIDED: Final = frozenset(
    {
        Reason.REGISTRY_UNAVAILABLE,
        Reason.TRUST_ROOT_UNAVAILABLE,
        Reason.PULL_SECRET_UNREADABLE,
        Reason.POLICY_UNREADABLE,
    }
)
# The cache is not meant for this place, or not any more.
NOT_MEANT: Final = frozenset({Reason.INCOMPATIBLE, Reason.NO_CARDS, Reason.NAMESPACE_MISSING, Reason.DELETING})
# Of Verified, what is no verdict and may pass without anybody changing the cache.
PASSING: Final = UNDER_WAY | UNDECIDED
# Of Ready and Extracted in one place, what does not degrade the cache. A place that nobody can fetch for does.
NO_FAILURE: Final = UNDER_WAY | NOT_MEANT


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition, as Kubernetes has it; `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


def state(type_: ConditionType, reason: str, message: str = "", *, holds: bool | None) -> Condition:
    """Return a condition without times; `holds` is None where nobody knows."""
    status = "Unknown" if holds is None else str(holds)
    return Condition(type_.value, status, str(reason), shorten(message, MAX_MESSAGE))


def merge_conditions(
    former: Iterable[Condition], present: Sequence[Condition], *, now: str, generation: int = 0
) -> list[Condition]:
    """Return the present conditions with the times of those whose status is what it was.

    Args:
        former: what was written before; those that are not told of any more go.
        present: what holds now, in the order in which it is written.
        now: RFC 3339.
        generation: of the spec that they are about.
    """
    before = {each.type: each for each in former}
    merged = []
    for each in present:
        was = before.get(each.type)
        since = was.last_transition_time if was is not None and was.status == each.status else now
        merged.append(msgspec.structs.replace(each, last_transition_time=since or now, observed_generation=generation))
    return merged


def is_failure(condition: Condition) -> bool:
    """Return whether a condition of one place says that something failed, and is not merely under way or not meant."""
    return condition.status == "False" and condition.reason not in NO_FAILURE


def is_refusal(condition: Condition | None) -> bool:
    """Return whether Verified says that the image was looked at and is refused; else waiting may help."""
    return condition is not None and condition.status == "False" and condition.reason not in PASSING


def find_condition(conditions: Iterable[Condition], type_: ConditionType) -> Condition | None:
    """Return the condition of a type; None where nothing is said."""
    return next((each for each in conditions if each.type == type_.value), None)


def holds(conditions: Iterable[Condition], type_: ConditionType) -> bool:
    """Return whether a condition is True."""
    found = find_condition(conditions, type_)
    return found is not None and found.status == "True"
