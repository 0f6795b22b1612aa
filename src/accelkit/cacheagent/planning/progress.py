"""State and next step of a cache on this node, determined without I/O."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from accelkit.cacheagent.planning.desired_caches import DesiredCache, Refusal
from accelkit.cacheagent.planning.world import GIB, Attempt, ImageFacts, World
from accelkit.gkm.conditions import Reason
from accelkit.kernelcache.compatibility.verdicts import CompatibilityVerdicts, Fit, judge


class NextStep(StrEnum):
    """Next step for a cache.

    NOTHING: no action is required, or the controller or the policies must change first. READ_IMAGE: read the labels of
    the image. EXTRACT: fetch the files. VERIFY: verify existing files against the current policies. SERVE: allow pods
    to use the files. WITHDRAW: prevent pods from using the files.
    """

    NOTHING = "nothing"
    READ_IMAGE = "read-image"
    EXTRACT = "extract"
    VERIFY = "verify"
    SERVE = "serve"
    WITHDRAW = "withdraw"


@dataclass(frozen=True)
class Progress:
    """State of one cache on this node.

    Attributes:
        desired: desired state of the cache.
        step: next step, even if it cannot start yet.
        image_facts: facts about the image; None if they are unknown.
        verdicts: verdicts for the node's cards; None if they are unknown.
        refusal: reason why the cache is withdrawn; None if it is not withdrawn.
        attempt: last attempt that failed with the current inputs; None if there is no such attempt.
    """

    desired: DesiredCache
    step: NextStep
    image_facts: ImageFacts | None = None
    verdicts: CompatibilityVerdicts | None = None
    refusal: Refusal | None = None
    attempt: Attempt | None = None

    @property
    def needs_bytes(self) -> int:
        """The expected size of the files on the disk, in bytes."""
        if not self.desired.delivered:
            return 0
        image_facts = self.image_facts.size_bytes if self.image_facts is not None else 0
        return max(image_facts, self.desired.cache_bytes)


def assess(world: World, desired: DesiredCache) -> Progress:
    """Return the state of a cache."""
    if not desired.delivered:
        return _assess_elsewhere(world, desired)
    if not desired.folder:
        return Progress(
            desired, NextStep.NOTHING if desired.refusal is None else NextStep.WITHDRAW, refusal=desired.refusal
        )
    image_facts = world.find_image_facts(desired)
    verdicts = judge(image_facts.labels, world.node.facts) if image_facts is not None else None
    policies_of_image = world.image_policies[desired.key]
    attempt = _find_attempt(world, desired)
    refusal = desired.refusal or policies_of_image.refusal
    # The work is retried at `retry_at`, because an image may be signed later. Until then, pods cannot use the files.
    if refusal is None and attempt is not None and attempt.refused and attempt.retry_at > world.now:
        refusal = Refusal(attempt.reason, attempt.message)
    if refusal is None and verdicts is not None and verdicts.fit is Fit.NONE:
        refusal = Refusal(describe_misfit(verdicts), "no card of the node can load the kernels")
    step = _choose_step(world, desired, image_facts) if refusal is None else NextStep.WITHDRAW
    return Progress(desired, step, image_facts, verdicts, refusal, attempt)


def _assess_elsewhere(world: World, desired: DesiredCache) -> Progress:
    """Return the state of a cache with a delivery other than `node`, which requires only verdicts for cards."""
    if desired.image is None:
        return Progress(desired, NextStep.NOTHING)
    image_facts, policies_of_image = world.find_image_facts(desired), world.image_policies[desired.key]
    needs_image_facts = (
        image_facts is None
        and desired.verified is True
        and policies_of_image.refusal is None
        and policies_of_image.undecided is None
    )
    return Progress(
        desired,
        NextStep.READ_IMAGE if needs_image_facts else NextStep.NOTHING,
        image_facts,
        judge(image_facts.labels, world.node.facts) if image_facts is not None else None,
        attempt=_find_attempt(world, desired),
    )


def _find_attempt(world: World, desired: DesiredCache) -> Attempt | None:
    attempt = world.attempts.get(desired.key)
    return attempt if attempt is not None and attempt.about == world.describe_work(desired) else None


def _choose_step(world: World, desired: DesiredCache, image_facts: ImageFacts | None) -> NextStep:
    policies_of_image, stored = world.image_policies[desired.key], world.find_stored(desired)
    if desired.verified is not True or policies_of_image.undecided is not None:
        return NextStep.NOTHING
    if stored is not None:
        return NextStep.SERVE if world.is_satisfied(desired) else NextStep.VERIFY
    return NextStep.READ_IMAGE if image_facts is None else NextStep.EXTRACT


def describe_misfit(verdicts: CompatibilityVerdicts) -> Reason:
    """Return the reason why no card of a node can use a cache."""
    return Reason.INCOMPATIBLE if verdicts.cards else Reason.NO_CARDS


@dataclass(frozen=True)
class NoRoom:
    """Reason why there is not enough space for a cache."""

    reason: Reason
    message: str


def find_room(world: World, progress: Progress, taken_bytes: int, promised_bytes: int) -> NoRoom | None:
    """Return the reason why there is not enough space for a cache; None if there is enough space.

    Args:
        world: observed values with the limits of the disk.
        progress: state of the cache.
        taken_bytes: size of all caches in the store.
        promised_bytes: expected size of other caches that are being fetched or have precedence.
    """
    disk, needed = world.disk, progress.needs_bytes
    if disk.max_bytes is not None and taken_bytes + promised_bytes + needed > disk.max_bytes:
        return NoRoom(
            Reason.OVER_BUDGET,
            f"the cache needs {format_gib(needed)}, but {format_gib(taken_bytes + promised_bytes)} of the "
            f"{format_gib(disk.max_bytes)} for caches on this node are in use; raise --max-gib, or delete caches",
        )
    if disk.free_bytes - promised_bytes - needed < disk.reserve_bytes:
        return NoRoom(
            Reason.NODE_FULL,
            f"the cache needs {format_gib(needed)}, but this node has {format_gib(disk.free_bytes)} of free space, and "
            f"{format_gib(disk.reserve_bytes)} must stay free and {format_gib(promised_bytes)} are reserved for other "
            "caches; free some space, or lower --min-free-percent and --min-free-gib",
        )
    return None


def format_gib(size_bytes: int) -> str:
    """Return a size in GiB as text."""
    return f"{size_bytes / GIB:.2f} GiB" if size_bytes >= GIB // 100 else f"{size_bytes} bytes"
