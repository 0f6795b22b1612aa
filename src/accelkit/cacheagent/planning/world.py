"""Observed values at one point in time, which are the input for the agent's plan."""

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
# Link target for a cache that must not be used. The target does not exist, so pods cannot start with an empty folder.
WITHDRAWN: Final = "withdrawn"
# A namespace, and the name of a link or folder that pods in this namespace may read.
Entry = tuple[str, str]
RETRIES: Final = BackOff(5.0, 300.0)
MOVE_SECONDS: Final = 300.0
# Minimum validity of verdicts, in seconds. Otherwise, a node might look up signatures continuously.
LEAST_VERDICT_SECONDS: Final = 300.0


@dataclass(frozen=True)
class Stored:
    """A complete cache in the store.

    Attributes:
        files: number of files.
        size_bytes: size of the files.
        labels: labels of the image.
        satisfied: times at which the cache was found to satisfy policies, in seconds since 1970, keyed by
            `ImagePolicies.policies`.
        mount_path: mount path in the group files.
    """

    files: int
    size_bytes: int
    labels: ImageLabels
    satisfied: Mapping[str, float] = field(default_factory=dict)
    mount_path: str = ""

    def was_fetched(self, policies: str) -> bool:
        """Return whether the cache was previously verified for the namespace and image in `policies`.

        If it was, the credentials of the namespace have allowed access to the image.
        """
        scope = _read_scope(policies)
        return any(_read_scope(each) == scope for each in self.satisfied)


def _read_scope(policies: str) -> str:
    """Return the part of `ImagePolicies.policies` that identifies the namespace and the image."""
    return policies.partition("/")[2]


@dataclass(frozen=True)
class ImageFacts:
    """Facts from the manifest and configuration of an image. `packed_bytes` is the compressed size of its layers."""

    labels: ImageLabels
    packed_bytes: int

    @property
    def size_bytes(self) -> int:
        """The expected size of the extracted files, in bytes."""
        return self.labels.size_bytes or self.packed_bytes


@dataclass(frozen=True)
class ImagePolicies:
    """Signer policies that apply to the image of a cache.

    Attributes:
        policies: digest of the content of these policies, the namespace and the image, as in
            `ExtractionRequest.policy_digest`. If it changes, the image must be verified again.
        refusal: reason why all digests of the image are rejected; None if a digest can be accepted.
        undecided: reason why the policies cannot currently be evaluated; None if they can be evaluated.
        verdict_seconds: time for which a verdict is valid according to the policies, in seconds.
    """

    policies: str
    refusal: Refusal | None = None
    undecided: Refusal | None = None
    verdict_seconds: float = math.inf


@dataclass(frozen=True)
class Attempt:
    """The last failed attempt to perform work on a cache.

    Attributes:
        about: text that identifies the inputs of the work. Work with different inputs starts without delay.
        failures: number of consecutive failures.
        reason: reason of the condition in the report.
        message: message for users.
        retry_at: time of the next attempt on the agent's clock.
        refused: whether the signatures were rejected; False for a temporary error.
    """

    about: str
    failures: int
    reason: str
    message: str
    retry_at: float
    refused: bool = False


@dataclass(frozen=True)
class Disk:
    """The disk of the store, and the space that must remain free.

    Attributes:
        free_bytes: free space on the disk.
        max_bytes: maximum total size of all caches; None if it is limited only by the disk.
        min_free_bytes: space that must remain free.
        total_bytes: size of the disk.
        min_free_percent: percentage of the disk that must remain free. The larger of `min_free_bytes` and this
            percentage applies.
    """

    free_bytes: int
    max_bytes: int | None = None
    min_free_bytes: int = 0
    total_bytes: int = 0
    min_free_percent: float = 0.0

    @property
    def reserve_bytes(self) -> int:
        """The space that must remain free, in bytes."""
        return max(self.min_free_bytes, int(self.total_bytes * self.min_free_percent / 100))


@dataclass(frozen=True)
class World:
    """Observed values on which a plan is based.

    Attributes:
        now: current time of a monotonic clock, in seconds.
        node: the agent's node.
        today: current time in seconds since 1970.
        desired_caches: desired states of all caches, keyed by cache key.
        unreadable: keys of caches with an invalid status, whose files and links the agent does not change.
        image_policies: policies for each image, keyed by cache key. Only caches with an image are included.
        disk: disk of the store.
        pods: pods on the node that mount claims.
        stored: complete caches in the store, keyed by folder name.
        broken: names of cache folders without a complete cache.
        links: target folder or WITHDRAWN, keyed by link name.
        entries: existing namespace entries.
        uses: names of folders that the containers of a pod may use, keyed by pod UID and cache key.
        moving_since: time since which the move of a link has been pending, keyed by cache key.
        image_facts: facts about images, keyed by digest.
        attempts: last failed attempt, keyed by cache key.
        pauses: pause between fetches, keyed by cache key.
        busy: expected size of the files in bytes for each cache with work in progress, keyed by cache key.
        slots: number of free slots for work.
        changed: message for each folder with changed content.
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
        """Return the stored files of a cache; None if they are missing or were extracted for a different mount path."""
        stored = self.stored.get(desired.folder)
        # Without a mount path, the files contain the path of their own folder.
        return stored if stored is not None and desired.mount_path in {"", stored.mount_path} else None

    def is_satisfied(self, desired: DesiredCache) -> bool:
        """Return whether a valid verdict confirms that the stored files satisfy the current policies."""
        policies_of_image, stored = self.image_policies[desired.key], self.find_stored(desired)
        at = stored.satisfied.get(policies_of_image.policies) if stored is not None else None
        # A time in the future is the result of an incorrect clock.
        valid_seconds = max(policies_of_image.verdict_seconds, LEAST_VERDICT_SECONDS)
        return at is not None and 0 <= self.today - at < valid_seconds

    def find_image_facts(self, desired: DesiredCache) -> ImageFacts | None:
        """Return the facts about an image, from the store or its registry; None if they are unknown."""
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
        disk: disk of the store, with its limits.
        taken_bytes: size of the other caches.
        promised_bytes: expected size of other caches that are being fetched.
        fetches: whether the files must still be fetched, which requires free space.
    """
    most = Limits().total_bytes
    if disk.max_bytes is not None:
        most = min(most, disk.max_bytes - taken_bytes - promised_bytes)
    if fetches:
        most = min(most, disk.free_bytes - disk.reserve_bytes - promised_bytes)
    return max(1, most)
