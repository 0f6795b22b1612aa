"""Cache conditions, with their types, reasons and transition times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from accelkit.texts import shorten

MAX_MESSAGE: Final = 1024


class ConditionType(StrEnum):
    """Type of a condition.

    RESOLVED: the tag of the image was resolved to a digest. VERIFIED: the signatures of the image satisfy the policies.
    COMPATIBLE: cards can load the cache. EXTRACTED: the files of the cache exist at the path from which pods mount
    them. READY: pods may use the cache. In the status of a cache, READY means that the cache is ready on at least one
    node or in all namespaces, and has not failed on any node or in any namespace. OUTDATED: pods use a previous digest.
    EFFECTIVE: workloads find their kernels in the cache. DEGRADED: the cache failed on a node or in a namespace, even
    if it is ready on other nodes or in other namespaces.
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
    """Reason of a condition. Conditions also use the reasons from signature verdicts and card verdicts."""

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
    # A pod mounts, or would mount, a claim as writable, although all pods share the files.
    WRITABLE_POD = "WritablePod"
    # Same as ClaimExists, but claims from accelkit still exist. Admission policies may ignore the name only if the
    # reason is ClaimExists.
    CLAIM_TAKEN = "ClaimTaken"
    NOT_BOUND = "NotBound"
    TRUST_ROOT_UNAVAILABLE = "TrustRootUnavailable"


# Work is in progress, without a failure.
UNDER_WAY: Final = frozenset({Reason.PENDING, Reason.EXTRACTING, Reason.RETRYING})
# There is no verdict, because a source could not be read.
UNDECIDED: Final = frozenset(
    {
        Reason.REGISTRY_UNAVAILABLE,
        Reason.TRUST_ROOT_UNAVAILABLE,
        Reason.PULL_SECRET_UNREADABLE,
        Reason.POLICY_UNREADABLE,
    }
)
# The cache is not intended for this node or namespace, or is no longer intended for it.
NOT_MEANT: Final = frozenset({Reason.INCOMPATIBLE, Reason.NO_CARDS, Reason.NAMESPACE_MISSING, Reason.DELETING})
# Reasons for the condition Verified that are not verdicts, and that may disappear without a change of the cache.
PASSING: Final = UNDER_WAY | UNDECIDED
# Reasons for Ready and Extracted on one node or in one namespace that do not degrade the cache. UNDECIDED is not
# included, because the cache is degraded if a node or namespace has no access to the image.
NO_FAILURE: Final = UNDER_WAY | NOT_MEANT


class Condition(msgspec.Struct, frozen=True, rename="camel"):
    """A condition as defined by Kubernetes. `status` is True, False or Unknown."""

    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


def state(type_: ConditionType, reason: str, message: str = "", *, holds: bool | None) -> Condition:
    """Return a condition without times. If `holds` is None, the status is Unknown."""
    status = "Unknown" if holds is None else str(holds)
    return Condition(type_.value, status, str(reason), shorten(message, MAX_MESSAGE))


def merge_conditions(
    former: Iterable[Condition], present: Sequence[Condition], *, now: str, generation: int = 0
) -> list[Condition]:
    """Return the current conditions, with the previous transition times if the status has not changed.

    Args:
        former: the previous conditions. Types that are not in `present` are removed.
        present: the current conditions, in the order in which they are written.
        now: the current time, RFC 3339.
        generation: the generation of the spec that the conditions describe.
    """
    before = {each.type: each for each in former}
    merged = []
    for each in present:
        previous = before.get(each.type)
        since = previous.last_transition_time if previous is not None and previous.status == each.status else now
        merged.append(msgspec.structs.replace(each, last_transition_time=since or now, observed_generation=generation))
    return merged


def is_failure(condition: Condition) -> bool:
    """Return whether a condition reports a failure on a node or in a namespace.

    If work is in progress, or the cache is not intended for the node or namespace, the condition does not report a
    failure.
    """
    return condition.status == "False" and condition.reason not in NO_FAILURE


def is_refusal(condition: Condition | None) -> bool:
    """Return whether the condition Verified is False because of a verdict. Otherwise, a later check may succeed."""
    return condition is not None and condition.status == "False" and condition.reason not in PASSING


def find_condition(conditions: Iterable[Condition], type_: ConditionType) -> Condition | None:
    """Return the condition of a type; None if it is missing."""
    return next((each for each in conditions if each.type == type_.value), None)


def holds(conditions: Iterable[Condition], type_: ConditionType) -> bool:
    """Return whether a condition is True."""
    found = find_condition(conditions, type_)
    return found is not None and found.status == "True"
