"""What the agent knows at one moment, as values: the ground on which its plan is made."""

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
# Where a link leads whose cache may not be used now: nowhere, so that no pod starts with an empty folder.
WITHDRAWN: Final = "withdrawn"
RETRIES: Final = BackOff(5.0, 300.0)
MOVE_SECONDS: Final = 300.0
# However short the policies say: a node would look for the signatures without end.
LEAST_BELIEVED_SECONDS: Final = 300.0


@dataclass(frozen=True)
class Stored:
    """A cache that lies in the store whole.

    Attributes:
        labels: what its image says of it.
        satisfied: the policies that it was found to satisfy, as `ImagePolicies.policies` names them, and when, in
            seconds since 1970.
        mount_path: where its group files say that it lies.
    """

    files: int
    size_bytes: int
    labels: ImageLabels
    satisfied: Mapping[str, float] = field(default_factory=dict)
    mount_path: str = ""


@dataclass(frozen=True)
class Learned:
    """What an image's manifest and configuration say; `packed_bytes` are those of its layers."""

    labels: ImageLabels
    packed_bytes: int

    @property
    def size_bytes(self) -> int:
        """What it is expected to take on the disk."""
        return self.labels.size_bytes or self.packed_bytes


@dataclass(frozen=True)
class ImagePolicies:
    """How the cluster's policies stand to a cache's image.

    Attributes:
        policies: names those that cover it, and what they say; another text has to be satisfied anew.
        refusal: why no digest of it can be accepted; None where some can.
        undecided: why nobody can say now; None where somebody can.
        believed_seconds: for how long a verdict counts, as the policies say.
    """

    policies: str
    refusal: Refusal | None = None
    undecided: Refusal | None = None
    believed_seconds: float = math.inf


@dataclass(frozen=True)
class Attempt:
    """How the last work on a digest ended.

    Attributes:
        about: what it rested on; with something else it is begun anew.
        failures: in a row.
        reason: of the condition.
        message: a sentence.
        retry_at: when it may be tried again, on the agent's clock.
        refused: whether it is a verdict on the signatures, and not trouble on the way.
    """

    about: str
    failures: int
    reason: str
    message: str
    retry_at: float
    refused: bool = False


@dataclass(frozen=True)
class Disk:
    """The store's disk, in bytes: what is free of how much, and what caches leave free of it.

    Attributes:
        max_bytes: what the caches may take together; None where there is no such limit.
        min_free_bytes: what stays free.
        min_free_percent: of all of the disk, what stays free, where that is more.
    """

    free_bytes: int
    max_bytes: int | None = None
    min_free_bytes: int = 0
    total_bytes: int = 0
    min_free_percent: float = 0.0

    @property
    def reserve_bytes(self) -> int:
        """What stays free."""
        return max(self.min_free_bytes, int(self.total_bytes * self.min_free_percent / 100))


@dataclass(frozen=True)
class World:
    """All of it.

    Attributes:
        now: on a clock that never goes back, in seconds.
        today: seconds since 1970.
        desired_caches: of all caches, by key.
        unreadable: keys of those whose status cannot be followed; nothing changes for them.
        image_policies: of the policies to each image; without an image there is none.
        pods: of the node, that mount claims.
        stored: by the name of the folder.
        broken: folders named like caches that are none.
        links: by the name of the link, the folder that it leads to, or WITHDRAWN.
        uses: by the UID of a pod and the key of a cache, the folders that its containers may have been given.
        moving_since: since when links should be moved, by key.
        learned: by digest.
        attempts: by key.
        pauses: by key, when those that were fetched lately may be fetched again.
        busy: keys with work under way, and the bytes that it is expected to take.
        slots: how many more may be worked on at once.
        changed: what is told of folders that were found not to be what was extracted.
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
    uses: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    moving_since: Mapping[str, float] = field(default_factory=dict)
    learned: Mapping[str, Learned] = field(default_factory=dict)
    attempts: Mapping[str, Attempt] = field(default_factory=dict)
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    busy: Mapping[str, int] = field(default_factory=dict)
    slots: int = 4
    today: float = 0.0
    changed: Mapping[str, str] = field(default_factory=dict)

    def find_stored(self, desired: DesiredCache) -> Stored | None:
        """Return what lies here of a cache; None of a folder that was made for another mount path."""
        stored = self.stored.get(desired.folder)
        # Without a mount path, files name each other by where they lie.
        return stored if stored is not None and desired.mount_path in {"", stored.mount_path} else None

    def is_satisfied(self, desired: DesiredCache) -> bool:
        """Return whether what lies here satisfies the present policies, and was found to not too long ago."""
        policies_of_image, stored = self.image_policies[desired.key], self.find_stored(desired)
        at = stored.satisfied.get(policies_of_image.policies) if stored is not None else None
        # A time that lies ahead says that a clock was wrong.
        believed = max(policies_of_image.believed_seconds, LEAST_BELIEVED_SECONDS)
        return at is not None and 0 <= self.today - at < believed

    def find_learned(self, desired: DesiredCache) -> Learned | None:
        """Return what is known of an image: from the store, else from its registry."""
        stored = self.find_stored(desired)
        return Learned(stored.labels, stored.size_bytes) if stored is not None else self.learned.get(desired.digest)

    @staticmethod
    def name_link(key: str) -> str:
        """Return the name of a cache's link."""
        return Path(names.build_link_path(key)).name

    def describe_work(self, desired: DesiredCache) -> str:
        """Return what work on a cache rests on."""
        found = self.image_policies.get(desired.key)
        return f"{desired.image} {desired.mount_path} {found.policies if found is not None else ''}"


def limit_size(disk: Disk, taken_bytes: int, promised_bytes: int, *, fetches: bool) -> int:
    """Return how large a cache may be, in bytes.

    Args:
        disk: with its limits.
        taken_bytes: by the others.
        promised_bytes: to others that are being fetched.
        fetches: whether its files have yet to be fetched, so that the disk has to hold them.
    """
    most = Limits().total_bytes
    if disk.max_bytes is not None:
        most = min(most, disk.max_bytes - taken_bytes - promised_bytes)
    if fetches:
        most = min(most, disk.free_bytes - disk.reserve_bytes - promised_bytes)
    return max(1, most)
