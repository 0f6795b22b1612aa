"""Order of work: round-robin across namespaces, with namespaces that exceed their share last.

Users can create many caches, and each mount path requires a separate copy of the files. Therefore, neither the number
nor the names of caches in a namespace affect when caches of other namespaces are fetched. Copies cannot use the space
that is reserved for other namespaces.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from accelkit.cacheagent.planning.progress import NextStep, Progress, format_gib
from accelkit.cacheagent.planning.world import World

# Steps that require work.
WORK = frozenset({NextStep.READ_IMAGE, NextStep.EXTRACT, NextStep.VERIFY})


@dataclass(frozen=True)
class Shares:
    """Shares of namespaces in the space for caches. ClusterGKMCaches belong to the namespace with the empty name.

    Attributes:
        equal_bytes: size of the share of each namespace.
        taken_bytes: size of the caches that are stored or being fetched, keyed by namespace. If several namespaces use
            a folder, its size is divided equally among them.
    """

    equal_bytes: int
    taken_bytes: Mapping[str, int]

    def is_beyond(self, progress: Progress) -> bool:
        """Return whether the namespace would exceed its share with this cache."""
        more = 0 if progress.step is NextStep.VERIFY else progress.needs_bytes
        return self.taken_bytes.get(progress.desired.namespace, 0) + more > self.equal_bytes

    def explain(self, progress: Progress) -> str:
        """Return the reason why caches of other namespaces have precedence, to append to a message."""
        namespace = progress.desired.namespace
        whose = f"namespace {namespace} has" if namespace else "ClusterGKMCaches have"
        had = format_gib(self.taken_bytes.get(namespace, 0))
        return f"; {whose} {had}, and namespaces with at most {format_gib(self.equal_bytes)} have precedence"


def find_shares(world: World) -> Shares:
    """Return the shares of all namespaces."""
    requesting: dict[str, set[str]] = defaultdict(set)
    for desired in world.desired_caches.values():
        requesting[desired.folder].add(desired.namespace)
    for by_key in world.uses.values():
        for key, folders in by_key.items():
            for folder in folders if key else ():
                requesting[folder].add(key.partition("/")[0])
    taken: dict[str, int] = defaultdict(int)
    for folder, stored in world.stored.items():
        for namespace in requesting.get(folder, ()):
            taken[namespace] += stored.size_bytes // len(requesting[folder])
    for key, promised in world.busy.items():
        taken[key.partition("/")[0]] += promised
    disk, lying = world.disk, sum(each.size_bytes for each in world.stored.values())
    room = lying + max(0, disk.free_bytes - disk.reserve_bytes)
    room = room if disk.max_bytes is None else min(room, disk.max_bytes)
    # A cache without a valid signature does not reduce the share of other namespaces.
    namespaces = {
        *taken,
        *(desired.namespace for desired in world.desired_caches.values() if desired.folder and desired.verified),
    }
    return Shares(room // max(1, len(namespaces)), taken)


class Slots:
    """Slots for concurrent work. If several namespaces have caches, no namespace can use all slots.

    A registry that deliberately responds slowly occupies a slot during this time.
    """

    def __init__(self, world: World) -> None:
        self._left = world.slots
        self._taken = Counter(key.partition("/")[0] for key in world.busy)
        alone = len({desired.namespace for desired in world.desired_caches.values()}) <= 1
        self._most = max(1, world.slots + len(world.busy) - (not alone))

    def has(self, namespace: str) -> bool:
        """Return whether work for a namespace may start."""
        return self._left > 0 and self._taken[namespace] < self._most

    def take(self, namespace: str) -> None:
        """Record the start of work for a namespace."""
        self._left -= 1
        self._taken[namespace] += 1


def order_work(world: World, progress: Iterable[Progress], shares: Shares) -> list[Progress]:
    """Return the caches that require work and have no work in progress, in the order in which work should start.

    Namespaces alternate, and the order takes work in progress into account. Within a namespace, caches with fewer
    failures have precedence, so that permanent failures do not delay other caches.
    """
    positions: dict[str, int] = defaultdict(int)
    for key in world.busy:
        positions[key.partition("/")[0]] += 1
    ranked = []
    waiting = [each for each in progress if each.step in WORK and each.desired.key not in world.busy]
    for each in sorted(waiting, key=_rank_within):
        namespace = each.desired.namespace
        early = is_early(world, each)
        ranked.append(((shares.is_beyond(each), early, positions[namespace], *_rank_within(each)), each))
        # Caches that wait for a retry do not affect the position of other caches.
        positions[namespace] += not early
    return [each for _, each in sorted(ranked, key=lambda rank: rank[0])]


def _rank_within(progress: Progress) -> tuple[int, str]:
    return progress.attempt.failures if progress.attempt is not None else 0, progress.desired.key


def is_early(world: World, progress: Progress) -> bool:
    """Return whether work on a cache must wait for a retry interval or a pause between fetches."""
    return find_due(world, progress) > world.now


def find_due(world: World, progress: Progress) -> float:
    """Return the time on the agent's clock at which work on a cache may start; 0 if it may start now."""
    retry = progress.attempt.retry_at if progress.attempt is not None else 0.0
    pause = world.pauses.get(progress.desired.key) if progress.step is NextStep.EXTRACT else None
    return max(retry, pause.until if pause is not None else 0.0)
