"""Observed values at one moment, from which the agent makes its plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from accelkit.back_off import BackOff
from accelkit.cacheagent.planning.desired_caches import DesiredCache, Refusal
from accelkit.cacheagent.planning.observed import MountingPod, OwnNode
from accelkit.cacheagent.planning.pauses import Pause
from accelkit.gkm import names
from accelkit.kernelcache.extraction import Limits
from accelkit.kernelcache.formats import ImageLabels

GIB: Final = 1 << 30
# Target of the link of a cache that may not be used: it does not exist, so that no pod starts with an empty folder.
WITHDRAWN: Final = "withdrawn"
# A namespace, and the name of a link or folder whose files the pods of that namespace may read.
Entry = tuple[str, str]
RETRIES: Final = BackOff(5.0, 300.0)
MOVE_SECONDS: Final = 300.0
# Lower bound for policies with a short validity, because a node would otherwise look up signatures continuously.
LEAST_VERDICT_SECONDS: Final = 300.0


@dataclass(frozen=True)
class Stored:
    """A complete cache in the store.

    Attributes:
        files: number of files.
        size_bytes: size of the files.
        labels: labels of its image.
        satisfied: the policies that it satisfied, as `ImagePolicies.policies` names them, and the time of each in
            seconds since 1970.
        mount_path: the mount path in its group files.
    """

    files: int
    size_bytes: int
    labels: ImageLabels
    satisfied: Mapping[str, float] = field(default_factory=dict)
    mount_path: str = ""

    def was_fetched(self, policies: str) -> bool:
        """Return whether it was previously verified for the namespace and the image of these policies.

        If so, the credentials of the namespace gave access to the image.
        """
        scope = _read_scope(policies)
        return any(_read_scope(each) == scope for each in self.satisfied)


def _read_scope(policies: str) -> str:
    """Return the namespace and the image in `ImagePolicies.policies`."""
    return policies.partition("/")[2]


@dataclass(frozen=True)
class ImageFacts:
    """Facts from an image's manifest and configuration; `packed_bytes` is the size of its layers."""

    labels: ImageLabels
    packed_bytes: int

    @property
    def size_bytes(self) -> int:
        """Expected size on the disk."""
        return self.labels.size_bytes or self.packed_bytes


@dataclass(frozen=True)
class ImagePolicies:
    """Result of the cluster's signer policies for a cache's image.

    Attributes:
        policies: identifies the covering policies and their content, the namespace and the image, as
            `ExtractionRequest.policy_digest` does; after a change, the image must be verified again.
        refusal: why no digest of the image can be accepted; None if a digest can be accepted.
        undecided: why the policies cannot currently be evaluated; None if they can be.
        verdict_seconds: how long a verdict is valid according to the policies.
    """

    policies: str
    refusal: Refusal | None = None
    undecided: Refusal | None = None
    verdict_seconds: float = math.inf


@dataclass(frozen=True)
class Attempt:
    """Result of the last failed work on a digest.

    Attributes:
        about: the inputs of the work; with other inputs, the work starts without delay.
        failures: number of failures in a row.
        reason: the reason of the condition.
        message: a sentence.
        retry_at: when the work may be retried, on the agent's clock.
        refused: whether the signatures were rejected, as opposed to a temporary error.
    """

    about: str
    failures: int
    reason: str
    message: str
    retry_at: float
    refused: bool = False


@dataclass(frozen=True)
class Disk:
    """The store's disk in bytes, and the space that caches leave free.

    Attributes:
        free_bytes: free space.
        max_bytes: limit on the total size of all caches; None for no such limit.
        min_free_bytes: space that stays free.
        total_bytes: size of the disk.
        min_free_percent: percentage of the disk that stays free, if that is more.
    """

    free_bytes: int
    max_bytes: int | None = None
    min_free_bytes: int = 0
    total_bytes: int = 0
    min_free_percent: float = 0.0

    @property
    def reserve_bytes(self) -> int:
        """Space that stays free."""
        return max(self.min_free_bytes, int(self.total_bytes * self.min_free_percent / 100))


@dataclass(frozen=True)
class World:
    """All values from which a plan is made.

    Attributes:
        now: seconds of a monotonic clock.
        node: the agent's node.
        today: seconds since 1970.
        desired_caches: desired states of all caches, by key.
        unreadable: keys of caches with an invalid status; nothing changes for them.
        image_policies: policies for each image, by key; a cache without an image has none.
        disk: the store's disk.
        pods: pods of the node that mount claims.
        stored: caches by the name of their folder.
        broken: folders with names of caches that contain no complete cache.
        links: by the name of the link, the target folder or WITHDRAWN.
        entries: by namespace, the links and folders that its pods may read.
        uses: by the UID of a pod and the key of a cache, the folders that its containers may have been given.
        moving_since: the time since when a link should have been moved, by key.
        image_facts: facts about images, by digest.
        attempts: last failures, by key.
        pauses: by key, when recently fetched caches may be fetched again.
        busy: keys of caches with work in progress, and the expected size in bytes of that work.
        slots: how many more work items may start.
        changed: messages about folders whose content was found changed.
    """

    now: float
    node: OwnNode
    desired_caches: Mapping[str, DesiredCache]
    image_policies: Mapping[str, ImagePolicies]
    disk: Disk
    unreadable: frozenset[str] = frozenset()
    pods: tuple[MountingPod, ...] = ()
    stored: Mapping[str, Stored] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    links: Mapping[str, str] = field(default_factory=dict)
    entries: frozenset[Entry] = frozenset()
    uses: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    moving_since: Mapping[str, float] = field(default_factory=dict)
    image_facts: Mapping[str, ImageFacts] = field(default_factory=dict)
    attempts: Mapping[str, Attempt] = field(default_factory=dict)
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    busy: Mapping[str, int] = field(default_factory=dict)
    slots: int = 4
    today: float = 0.0
    changed: Mapping[str, str] = field(default_factory=dict)

    def find_stored(self, desired: DesiredCache) -> Stored | None:
        """Return the stored files of a cache; None if the folder was prepared for another mount path."""
        stored = self.stored.get(desired.folder)
        # Without a mount path, the files refer to each other by their own folder.
        return stored if stored is not None and desired.mount_path in {"", stored.mount_path} else None

    def is_satisfied(self, desired: DesiredCache) -> bool:
        """Return whether the stored files satisfy the current policies, and were verified recently enough."""
        policies_of_image, stored = self.image_policies[desired.key], self.find_stored(desired)
        at = stored.satisfied.get(policies_of_image.policies) if stored is not None else None
        # A time in the future is the result of a wrong clock.
        valid_seconds = max(policies_of_image.verdict_seconds, LEAST_VERDICT_SECONDS)
        return at is not None and 0 <= self.today - at < valid_seconds

    def find_image_facts(self, desired: DesiredCache) -> ImageFacts | None:
        """Return the facts about an image, from the store or otherwise from its registry."""
        stored = self.find_stored(desired)
        return (
            ImageFacts(stored.labels, stored.size_bytes) if stored is not None else self.image_facts.get(desired.digest)
        )

    @staticmethod
    def name_link(key: str) -> str:
        """Return the name of a cache's link."""
        return Path(names.build_link_path(key)).name

    def describe_work(self, desired: DesiredCache) -> str:
        """Return the inputs of work on a cache."""
        found = self.image_policies.get(desired.key)
        return f"{desired.image} {desired.mount_path} {found.policies if found is not None else ''}"


def limit_size(disk: Disk, taken_bytes: int, promised_bytes: int, *, fetches: bool) -> int:
    """Return the largest possible size of a cache in bytes.

    Args:
        disk: contains the limits.
        taken_bytes: size of the other caches.
        promised_bytes: size of other caches that are being fetched.
        fetches: whether its files must still be fetched, so that the disk needs room for them.
    """
    most = Limits().total_bytes
    if disk.max_bytes is not None:
        most = min(most, disk.max_bytes - taken_bytes - promised_bytes)
    if fetches:
        most = min(most, disk.free_bytes - disk.reserve_bytes - promised_bytes)
    return max(1, most)
