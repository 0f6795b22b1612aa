"""Observed values at one point in time, on which the agent bases its plan."""

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
# Link target for a cache that must not be used. It does not exist, so that no pod starts with an empty folder.
WITHDRAWN: Final = "withdrawn"
# A namespace, and the name of a link or folder that the pods of this namespace may read.
Entry = tuple[str, str]
RETRIES: Final = BackOff(5.0, 300.0)
MOVE_SECONDS: Final = 300.0
# Lower bound for the validity of verdicts, because a node would otherwise look up signatures continuously.
LEAST_VERDICT_SECONDS: Final = 300.0


@dataclass(frozen=True)
class Stored:
    """A complete cache in the store.

    Attributes:
        files: number of files.
        size_bytes: size of the files.
        labels: labels of its image.
        satisfied: times in seconds since 1970 at which the cache satisfied policies, by `ImagePolicies.policies`.
        mount_path: mount path in the group files.
    """

    files: int
    size_bytes: int
    labels: ImageLabels
    satisfied: Mapping[str, float] = field(default_factory=dict)
    mount_path: str = ""

    def was_fetched(self, policies: str) -> bool:
        """Return whether the cache was previously verified for the namespace and the image of these policies.

        If so, the credentials of the namespace gave access to the image.
        """
        scope = _read_scope(policies)
        return any(_read_scope(each) == scope for each in self.satisfied)


def _read_scope(policies: str) -> str:
    """Return the namespace and the image in `ImagePolicies.policies`."""
    return policies.partition("/")[2]


@dataclass(frozen=True)
class ImageFacts:
    """Facts from the manifest and configuration of an image; `packed_bytes` is the size of its layers."""

    labels: ImageLabels
    packed_bytes: int

    @property
    def size_bytes(self) -> int:
        """Expected size on the disk, in bytes."""
        return self.labels.size_bytes or self.packed_bytes


@dataclass(frozen=True)
class ImagePolicies:
    """Result of selecting the signer policies for the image of a cache.

    Attributes:
        policies: identity of the covering policies with their content, the namespace and the image, as in
            `ExtractionRequest.policy_digest`; after a change, the image must be verified again.
        refusal: reason why no digest of the image can be accepted; None if a digest can be accepted.
        undecided: reason why the policies cannot be evaluated now; None if they can be evaluated.
        verdict_seconds: validity of a verdict according to the policies.
    """

    policies: str
    refusal: Refusal | None = None
    undecided: Refusal | None = None
    verdict_seconds: float = math.inf


@dataclass(frozen=True)
class Attempt:
    """Last failed attempt of the work on a digest.

    Attributes:
        about: inputs of the work; work with different inputs starts without delay.
        failures: number of consecutive failures.
        reason: reason of the condition.
        message: message for users.
        retry_at: time of the next attempt on the agent's clock.
        refused: whether the signatures were rejected; false for a temporary error.
    """

    about: str
    failures: int
    reason: str
    message: str
    retry_at: float
    refused: bool = False


@dataclass(frozen=True)
class Disk:
    """Disk of the store, and the space that must stay free.

    Attributes:
        free_bytes: free space.
        max_bytes: maximum total size of all caches; None for no limit.
        min_free_bytes: space that must stay free.
        total_bytes: size of the disk.
        min_free_percent: percentage of the disk that must stay free; the larger of both amounts applies.
    """

    free_bytes: int
    max_bytes: int | None = None
    min_free_bytes: int = 0
    total_bytes: int = 0
    min_free_percent: float = 0.0

    @property
    def reserve_bytes(self) -> int:
        """Space that must stay free, in bytes."""
        return max(self.min_free_bytes, int(self.total_bytes * self.min_free_percent / 100))


@dataclass(frozen=True)
class World:
    """Observed values on which a plan is based.

    Attributes:
        now: seconds of a monotonic clock.
        node: node of the agent.
        today: seconds since 1970.
        desired_caches: desired states of all caches, by key.
        unreadable: keys of caches with an invalid status, for which the agent changes nothing.
        image_policies: policies for each image, by cache key; only caches with an image are included.
        disk: disk of the store.
        pods: pods on the node that mount claims.
        stored: complete caches in the store, by folder name.
        broken: names of cache folders without a complete cache.
        links: target folder or WITHDRAWN, by link name.
        entries: existing entries of namespaces.
        uses: folders that the containers of a pod may use, by pod UID and cache key.
        moving_since: times since which links wait to be moved, by cache key.
        image_facts: facts about images, by digest.
        attempts: last failed attempts, by cache key.
        pauses: pauses between fetches, by cache key.
        busy: expected sizes in bytes of the work in progress, by cache key.
        slots: number of free slots for work.
        changed: messages about folders with changed content, by folder.
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
        """Return the stored files of a cache; None if they are missing or were prepared for another mount path."""
        stored = self.stored.get(desired.folder)
        # Without a mount path, the files contain the paths of their own folder.
        return stored if stored is not None and desired.mount_path in {"", stored.mount_path} else None

    def is_satisfied(self, desired: DesiredCache) -> bool:
        """Return whether the stored files satisfy the current policies according to a valid verdict."""
        policies_of_image, stored = self.image_policies[desired.key], self.find_stored(desired)
        at = stored.satisfied.get(policies_of_image.policies) if stored is not None else None
        # A time in the future results from an incorrect clock.
        valid_seconds = max(policies_of_image.verdict_seconds, LEAST_VERDICT_SECONDS)
        return at is not None and 0 <= self.today - at < valid_seconds

    def find_image_facts(self, desired: DesiredCache) -> ImageFacts | None:
        """Return the known facts about an image, from the store or from its registry; None if they are unknown."""
        stored = self.find_stored(desired)
        return (
            ImageFacts(stored.labels, stored.size_bytes) if stored is not None else self.image_facts.get(desired.digest)
        )

    @staticmethod
    def name_link(key: str) -> str:
        """Return the name of a cache's link."""
        return Path(names.build_link_path(key)).name

    def describe_work(self, desired: DesiredCache) -> str:
        """Return a text that identifies the inputs of the work on a cache."""
        found = self.image_policies.get(desired.key)
        return f"{desired.image} {desired.mount_path} {found.policies if found is not None else ''}"


def limit_size(disk: Disk, taken_bytes: int, promised_bytes: int, *, fetches: bool) -> int:
    """Return the maximum size of a cache in bytes.

    Args:
        disk: disk with its limits.
        taken_bytes: size of the other caches.
        promised_bytes: size of other caches that are being fetched.
        fetches: whether the files must still be fetched, and therefore need free space.
    """
    most = Limits().total_bytes
    if disk.max_bytes is not None:
        most = min(most, disk.max_bytes - taken_bytes - promised_bytes)
    if fetches:
        most = min(most, disk.free_bytes - disk.reserve_bytes - promised_bytes)
    return max(1, most)
