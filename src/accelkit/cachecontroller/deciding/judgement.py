"""Decision about the digest that pods use, based on facts about the image and the policies.

A verdict applies to one question, which consists of an image and its policies. A retryable failure is not a verdict, so
pods continue to use a digest that the same policies accepted. If the current digest is rejected, it is withdrawn. If
the tag has moved to a rejected digest, pods continue to use the previous digest.

This module performs no I/O.
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
    """Question to evaluate. A result for a different question is ignored.

    Attributes:
        image: image in the spec of the cache.
        policy_digest: digest of the policies that cover the image.
        secrets: names of pull secrets.
    """

    image: str
    policy_digest: str
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """Reason why an image cannot be used.

    Attributes:
        reason: reason in the condition.
        message: message for users.
        retryable: whether the evaluation itself failed, so that a verified digest remains in use.
    """

    reason: str
    message: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """Result of the evaluation of an image.

    Attributes:
        question: question that was evaluated.
        at: time of the result, in seconds since 1970.
        digest: digest of the image; empty if it is unknown.
        refused: reason why the image is rejected; None if the digest is verified.
        signatures: policy, signer and identity of each accepted signature.
        labels: labels of the image; None if it is rejected.
        attempts: number of consecutive attempts without a verdict, including this attempt.
        relocatable: whether the files work at another path without changes; None if unknown.
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
    """Decision about the digest and the objects of a cache.

    Attributes:
        status: the status, updated with the new digest, image, verification, mount path, size and previous digests.
        conditions: conditions Resolved and Verified.
        serves: whether the controller creates and maintains claims.
        withdrawn: whether the controller deletes unused objects.
        judge_at: time of the next evaluation of the image, in seconds since 1970; None if no evaluation is needed.
    """

    status: CacheStatus
    conditions: tuple[Condition, ...]
    serves: bool = False
    withdrawn: bool = False
    judge_at: float | None = None


def read_image(cache: Cache) -> Reference | Refused:
    """Return the image reference in a cache, or the reason why its image or mount path is invalid."""
    try:
        reference = parse_reference(cache.spec.image)
    except CacheError as exc:
        return Refused(Reason.INVALID_IMAGE, str(exc))
    path = cache.spec.mount_path
    if path and (len(path) > _MAX_PATH or not path.startswith("/") or posixpath.normpath(path) != path or path == "/"):
        text = f"mountPath {path[:80]!r} is not a normalized absolute path such as /root/.triton/cache"
        return Refused(Reason.INVALID_SPEC, text)
    if len(cache.spec.image_pull_secrets) > MAX_SECRETS:
        return Refused(Reason.INVALID_SPEC, f"more than {MAX_SECRETS} imagePullSecrets are not supported")
    return reference


def decide(
    cache: Cache, question: Question | Refused, judgement: Judgement | None, *, now: float, again_seconds: float
) -> Decision:
    """Return the decision about a cache.

    Args:
        cache: cache with its previous status.
        question: question to evaluate, or the reason why the image is not evaluated.
        judgement: last result; None if there has been no result since the controller was started.
        now: seconds since 1970.
        again_seconds: interval between verifications of an unchanged image.
    """
    status = cache.status
    if isinstance(question, Refused):
        return _keep(cache, question) if question.retryable else _withdraw(cache, question)
    current = judgement if judgement is not None and judgement.question == question else None
    same = bool(
        status.resolved_digest
        and status.resolved_image == question.image
        and status.verification is not None
        and status.verification.policy_digest == question.policy_digest
    )
    if current is None:
        if same and status.verification is not None:
            verified_at = min(now, read_time(status.verification.verified_at))
            # If the spec has changed, the mount path may also have changed.
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
    # The random factor distributes the evaluations of many images in one registry over time.
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
        # Nodes read these values from the files, and report these values only once.
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
    conditions = (_build_resolved(judgement.digest), _build_verified(verification.signatures))
    return Decision(status, conditions, serves=True, judge_at=judge_at)


def _serve_former(cache: Cache, judgement: Judgement | None, judge_at: float) -> Decision:
    """Continue to serve the digest that the same policies have already accepted."""
    status, signatures = cache.status, cache.status.verification.signatures if cache.status.verification else []
    resolved = _build_resolved(status.resolved_digest)
    if judgement is not None and (refused := judgement.refused) is not None:
        text = f"pods still get {status.resolved_digest}: {refused.message}"
        resolved = state(ConditionType.RESOLVED, refused.reason, text, holds=refused.retryable)
    if cache.spec.mount_path and cache.spec.mount_path != status.mount_path:
        status = msgspec.structs.replace(status, mount_path=cache.spec.mount_path)
    return Decision(status, (resolved, _build_verified(signatures)), serves=True, judge_at=judge_at)


def _keep(cache: Cache, refused: Refused) -> Decision:
    """Keep all existing objects but do not create new ones, because the verification result is unknown."""
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


def _build_resolved(digest: str) -> Condition:
    return state(ConditionType.RESOLVED, Reason.RESOLVED, f"the image has the digest {digest}", holds=True)


def _build_verified(signatures: Sequence[dict[str, str]]) -> Condition:
    signers = "; ".join(f"{each.get('policy')}: signed by {each.get('signer')}" for each in signatures)
    return state(ConditionType.VERIFIED, Reason.VERIFIED, signers, holds=True)
