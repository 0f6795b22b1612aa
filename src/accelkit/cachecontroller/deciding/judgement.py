"""Which digest pods get, from what was learnt of an image and by which policies; pure.

A verdict is about a question: this image, these policies. A retryable failure is none: then what was verified by the
same policies stays. A refusal of the digest that is in use withdraws it; that of another one, to which
the tag has moved, does not.
"""

from __future__ import annotations

import posixpath
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import msgspec

from accelkit.back_off import BackOff
from accelkit.errors import CacheError
from accelkit.gkm.conditions import Condition, ConditionType, Reason, state
from accelkit.gkm.objects import Cache, CacheMount, CacheStatus, CacheVerification
from accelkit.kernelcache.formats.label_reading import ImageLabels
from accelkit.kernelcache.formats.mounts import find_capture_path, list_mounts, list_variables
from accelkit.kernelcache.formats.recorded import write_texts
from accelkit.kernelcache.oci.reference import Reference, parse_reference
from accelkit.kernelcache.registry.pull_secrets import MAX_SECRETS
from accelkit.model.object_meta import read_time

DEFAULT_MOUNT_PATH: Final = "/cache"
_BACK_OFF: Final = BackOff(5.0, 300.0)
_MAX_PATH: Final = 1024


@dataclass(frozen=True, slots=True)
class Question:
    """What is judged; an answer to another one counts no longer.

    Attributes:
        image: as `spec` has it.
        policy_digest: of the policies that cover it.
        secrets: names of pull secrets.
    """

    image: str
    policy_digest: str
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Why an image is not to be used.

    Attributes:
        reason: of the condition.
        message: a sentence.
        retryable: whether nothing was learnt about the image, so that what was verified stays.
    """

    reason: str
    message: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """What was learnt of an image.

    Attributes:
        question: what was asked.
        at: when, in seconds since 1970.
        digest: to which the image led; empty where that is not known.
        refused: None where the digest is verified.
        signatures: policy, signer and identity of each that counts.
        labels: what the image says of itself; None where it is refused.
        attempts: how often in a row nothing was learnt, this time included.
        relocatable: whether the files may be seen at another path as they are; None where nobody knows.
    """

    question: Question
    at: float
    digest: str = ""
    refused: Refused | None = None
    signatures: tuple[dict[str, str], ...] = ()
    labels: ImageLabels | None = None
    attempts: int = 0
    relocatable: bool | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What pods get.

    Attributes:
        status: the former one with digest, image, verification, mount path, size and former digests of now.
        conditions: Resolved and Verified.
        serves: whether claims are made, and kept as they ought to be.
        withdrawn: whether what no pod uses is to go.
        judge_at: when the image is to be judged, in seconds since 1970; None for never.
    """

    status: CacheStatus
    conditions: tuple[Condition, ...]
    serves: bool = False
    withdrawn: bool = False
    judge_at: float | None = None


def read_image(cache: Cache) -> Reference | Refused:
    """Read what users wrote of the image, and of where it is mounted; why it cannot be used where it cannot."""
    try:
        reference = parse_reference(cache.spec.image)
    except CacheError as exc:
        return Refused(Reason.INVALID_IMAGE, str(exc))
    path = cache.spec.mount_path
    if path and (len(path) > _MAX_PATH or not path.startswith("/") or posixpath.normpath(path) != path or path == "/"):
        text = f"mountPath {path[:80]!r} is not a plain absolute path, as /root/.triton/cache"
        return Refused(Reason.INVALID_SPEC, text)
    if len(cache.spec.image_pull_secrets) > MAX_SECRETS:
        return Refused(Reason.INVALID_SPEC, f"more than {MAX_SECRETS} imagePullSecrets are not read")
    return reference


def decide(
    cache: Cache, asked: Question | Refused, judgement: Judgement | None, *, now: float, again_seconds: float
) -> Decision:
    """Decide what pods get of a cache.

    Args:
        cache: as it is.
        asked: what is to be judged now, or why there is nothing to judge.
        judgement: the last one; None since the controller's start.
        now: seconds since 1970.
        again_seconds: after which a verdict is given anew.
    """
    status = cache.status
    if isinstance(asked, Refused):
        return _keep(cache, asked) if asked.retryable else _withdraw(cache, asked)
    current = judgement if judgement is not None and judgement.question == asked else None
    same = bool(
        status.resolved_digest
        and status.resolved_image == asked.image
        and status.verification is not None
        and status.verification.policy_digest == asked.policy_digest
    )
    if current is None:
        if same and status.verification is not None:
            verified_at = min(now, read_time(status.verification.verified_at))
            # Of another spec, the mount path may be another too.
            unchanged = status.observed_generation == cache.metadata.generation
            return _serve_former(cache, None, verified_at + again_seconds if unchanged else now)
        text = "the image is being judged"
        decision = _keep(cache, Refused(Reason.PENDING, text, retryable=True))
        return replace(decision, judge_at=now)
    judge_at = current.at + _choose_pause(current, again_seconds)
    if current.refused is None:
        return _serve(cache, current, judge_at)
    if same and (current.refused.retryable or current.digest != status.resolved_digest):
        return _serve_former(cache, current, judge_at)
    decision = _keep(cache, current.refused) if current.refused.retryable else _withdraw(cache, current.refused)
    return replace(decision, judge_at=judge_at)


def _choose_pause(judgement: Judgement, again_seconds: float) -> float:
    if not judgement.attempts:
        return again_seconds
    # Many caches of one registry must not come back all at once.
    return min(again_seconds, _BACK_OFF.compute(judgement.attempts)) * random.uniform(0.8, 1.0)  # noqa: S311 - jitter


def _serve(cache: Cache, judgement: Judgement, judge_at: float) -> Decision:
    former = cache.status
    verification = CacheVerification(
        judgement.digest,
        judgement.question.policy_digest,
        list(judgement.signatures),
        datetime.fromtimestamp(judgement.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    labels = judgement.labels
    capture_path = (find_capture_path(labels) if labels is not None else None) or ""
    mount_path = cache.spec.mount_path or capture_path or DEFAULT_MOUNT_PATH
    mounts = list_mounts(labels, mount_path) if labels is not None else ()
    recorded = write_texts(labels.variables) if labels is not None else {}
    if not recorded and former.resolved_digest == judgement.digest:
        # What nodes found in its files, who tell it once.
        recorded = former.recorded_environment
    status = msgspec.structs.replace(
        former,
        resolved_digest=judgement.digest,
        resolved_image=judgement.question.image,
        previous_digests=_push(former, judgement.digest),
        verification=verification,
        mount_path=mount_path,
        cache_bytes=(labels.size_bytes or 0) if labels is not None else 0,
        cache_format=labels.format if labels is not None else "",
        capture_path=capture_path,
        relocatable=judgement.relocatable,
        mounts=[CacheMount(each.path, each.sub_path) for each in mounts],
        variables=list_variables(labels, mount_path) if labels is not None else {},
        recorded_environment=recorded,
    )
    conditions = (_say_resolved(judgement.digest), _say_verified(verification.signatures))
    return Decision(status, conditions, serves=True, judge_at=judge_at)


def _serve_former(cache: Cache, judgement: Judgement | None, judge_at: float) -> Decision:
    """Go on with what is verified by the same policies."""
    status, signatures = cache.status, cache.status.verification.signatures if cache.status.verification else []
    resolved = _say_resolved(status.resolved_digest)
    if judgement is not None and (refused := judgement.refused) is not None:
        text = f"pods still get {status.resolved_digest}: {refused.message}"
        resolved = state(ConditionType.RESOLVED, refused.reason, text, holds=refused.retryable)
    if cache.spec.mount_path and cache.spec.mount_path != status.mount_path:
        status = msgspec.structs.replace(status, mount_path=cache.spec.mount_path)
    return Decision(status, (resolved, _say_verified(signatures)), serves=True, judge_at=judge_at)


def _keep(cache: Cache, refused: Refused) -> Decision:
    """Change nothing of what pods have, and begin nothing: whether it is verified nobody knows."""
    conditions = (
        state(ConditionType.RESOLVED, refused.reason, refused.message, holds=False),
        state(ConditionType.VERIFIED, refused.reason, refused.message, holds=None),
    )
    return Decision(cache.status, conditions)


def _withdraw(cache: Cache, refused: Refused) -> Decision:
    former = cache.status
    status = msgspec.structs.replace(
        former, resolved_digest="", resolved_image="", verification=None, previous_digests=_push(former, "")
    )
    conditions = (
        state(ConditionType.RESOLVED, refused.reason, refused.message, holds=False),
        state(ConditionType.VERIFIED, refused.reason, refused.message, holds=False),
    )
    return Decision(status, conditions, withdrawn=True)


def _push(former: CacheStatus, digest: str) -> list[str]:
    known = (former.resolved_digest, *former.previous_digests)
    return [each for each in dict.fromkeys(known) if each and each != digest]


def _say_resolved(digest: str) -> Condition:
    return state(ConditionType.RESOLVED, Reason.RESOLVED, f"the image is {digest}", holds=True)


def _say_verified(signatures: Sequence[dict[str, str]]) -> Condition:
    signers = "; ".join(f"{each.get('policy')}: signed by {each.get('signer')}" for each in signatures)
    return state(ConditionType.VERIFIED, Reason.VERIFIED, signers, holds=True)
