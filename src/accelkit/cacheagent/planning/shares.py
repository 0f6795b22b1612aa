"""Order of work: round robin over namespaces, with namespaces that exceed their share last; no I/O.

Creating a cache costs a user almost nothing, and each additional mount path is another copy. So neither the number of a
namespace's caches nor its name decides when the caches of other namespaces are prepared, and its copies do not use up
the room of other namespaces.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from accelkit.cacheagent.planning.progress import Progress, Step, format_gib
from accelkit.cacheagent.planning.world import World

# Steps that need work.
WORK = frozenset({Step.READ_IMAGE, Step.EXTRACT, Step.VERIFY})


@dataclass(frozen=True)
class Shares:
    """Each namespace's share of the room for caches; ClusterGKMCaches count as the namespace with the empty name.

    Attributes:
        equal_bytes: the share of each namespace if all shares are equal.
        taken_bytes: size of stored and fetched caches by namespace; shared folders are divided among their namespaces.
    """

    equal_bytes: int
    taken_bytes: Mapping[str, int]

    def is_beyond(self, progress: Progress) -> bool:
        """Return whether a cache would make its namespace exceed its share."""
        more = 0 if progress.step is Step.VERIFY else progress.needs_bytes
        return self.taken_bytes.get(progress.desired.namespace, 0) + more > self.equal_bytes

    def explain(self, progress: Progress) -> str:
        """Return why caches of other namespaces come first, as the end of a sentence."""
        namespace = progress.desired.namespace
        whose = f"namespace {namespace} has" if namespace else "ClusterGKMCaches have"
        had = format_gib(self.taken_bytes.get(namespace, 0))
        return f"; {whose} {had}, and caches of namespaces within {format_gib(self.equal_bytes)} each come first"


def find_shares(world: World) -> Shares:
    """Return the share of each namespace."""
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
    """Slots for concurrent work; if several namespaces have caches, none of them gets all slots.

    A registry may respond slowly on purpose, which occupies a slot for that long.
    """

    def __init__(self, world: World) -> None:
        self._left = world.slots
        self._taken = Counter(key.partition("/")[0] for key in world.busy)
        alone = len({desired.namespace for desired in world.desired_caches.values()}) <= 1
        self._most = max(1, world.slots + len(world.busy) - (not alone))

    def has(self, namespace: str) -> bool:
        """Return whether work of a namespace may start."""
        return self._left > 0 and self._taken[namespace] < self._most

    def take(self, namespace: str) -> None:
        """Record that work of a namespace starts."""
        self._left -= 1
        self._taken[namespace] += 1


def order_work(world: World, progress: Iterable[Progress], shares: Shares) -> list[Progress]:
    """Return the caches that need work and have none in progress, in the order in which it may start.

    Namespaces take turns, and current work counts as a turn. Within a namespace, caches with the fewest failures come
    first, so that permanent failures do not delay other caches.
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
        # Caches that wait for their retry time do not use a turn.
        positions[namespace] += not early
    return [each for _, each in sorted(ranked, key=lambda rank: rank[0])]


def _rank_within(progress: Progress) -> tuple[int, str]:
    return progress.attempt.failures if progress.attempt is not None else 0, progress.desired.key


def is_early(world: World, progress: Progress) -> bool:
    """Return whether a cache waits until it may be retried or fetched again."""
    return find_due(world, progress) > world.now


def find_due(world: World, progress: Progress) -> float:
    """Return when work on a cache may start, on the agent's clock; 0 if it does not have to wait."""
    retry = progress.attempt.retry_at if progress.attempt is not None else 0.0
    pause = world.pauses.get(progress.desired.key) if progress.step is Step.EXTRACT else None
    return max(retry, pause.until if pause is not None else 0.0)
