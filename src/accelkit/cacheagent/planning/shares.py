"""Whose turn it is: namespaces one after the other, and last those that have more than their share; no I/O.

A cache costs those who make it next to nothing, and each other mount path is another copy. So neither the number of a
namespace's caches nor its name may decide when another's are worked on, nor its copies leave others without room.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from accelkit.cacheagent.planning.progress import Progress, Step, format_gib
from accelkit.cacheagent.planning.world import World

# What is to be worked on.
WORK = frozenset({Step.LEARN, Step.EXTRACT, Step.VERIFY})


@dataclass(frozen=True)
class Shares:
    """What namespaces have of the room that caches may take; that of the ClusterGKMCaches has no name.

    Attributes:
        equal_bytes: what each could have if all had as much.
        taken_bytes: what lies here or is being fetched for each; what several ask for is divided among them.
    """

    equal_bytes: int
    taken_bytes: Mapping[str, int]

    def is_beyond(self, progress: Progress) -> bool:
        """Return whether a namespace would have more than its share with a cache."""
        more = 0 if progress.step is Step.VERIFY else progress.needs_bytes
        return self.taken_bytes.get(progress.desired.namespace, 0) + more > self.equal_bytes

    def explain(self, progress: Progress) -> str:
        """Return why others come before a cache, as the end of a sentence."""
        namespace = progress.desired.namespace
        whose = f"namespace {namespace} has" if namespace else "ClusterGKMCaches have"
        had = format_gib(self.taken_bytes.get(namespace, 0))
        return f"; {whose} {had}, and those come first that stay within {format_gib(self.equal_bytes)} each"


def find_shares(world: World) -> Shares:
    """Return what each namespace has."""
    asking: dict[str, set[str]] = defaultdict(set)
    for desired in world.desired_caches.values():
        asking[desired.folder].add(desired.namespace)
    for by_key in world.uses.values():
        for key, folders in by_key.items():
            for folder in folders if key else ():
                asking[folder].add(key.partition("/")[0])
    taken: dict[str, int] = defaultdict(int)
    for folder, stored in world.stored.items():
        for namespace in asking.get(folder, ()):
            taken[namespace] += stored.size_bytes // len(asking[folder])
    for key, promised in world.busy.items():
        taken[key.partition("/")[0]] += promised
    disk, lying = world.disk, sum(each.size_bytes for each in world.stored.values())
    room = lying + max(0, disk.free_bytes - disk.reserve_bytes)
    room = room if disk.max_bytes is None else min(room, disk.max_bytes)
    # A cache that nobody has signed makes nobody's share smaller.
    namespaces = {
        *taken,
        *(desired.namespace for desired in world.desired_caches.values() if desired.folder and desired.verified),
    }
    return Shares(room // max(1, len(namespaces)), taken)


class Slots:
    """What may be worked on at once; while several namespaces ask, no one of them has all of it.

    A registry may answer slowly on purpose, and a slot is taken for as long.
    """

    def __init__(self, world: World) -> None:
        self._left = world.slots
        self._taken = Counter(key.partition("/")[0] for key in world.busy)
        alone = len({desired.namespace for desired in world.desired_caches.values()}) <= 1
        self._most = max(1, world.slots + len(world.busy) - (not alone))

    def has(self, namespace: str) -> bool:
        """Return whether work of a namespace may begin."""
        return self._left > 0 and self._taken[namespace] < self._most

    def take(self, namespace: str) -> None:
        """Count work that begins."""
        self._left -= 1
        self._taken[namespace] += 1


def order_work(world: World, progress: Iterable[Progress], shares: Shares) -> list[Progress]:
    """Return what is to be worked on and is not, in the order in which it may begin.

    Namespaces take turns; one with work under way has had its turn. Within each, what has failed least comes first, so
    that what fails for ever holds up nobody.
    """
    turns: dict[str, int] = defaultdict(int)
    for key in world.busy:
        turns[key.partition("/")[0]] += 1
    ranked = []
    waiting = [each for each in progress if each.step in WORK and each.desired.key not in world.busy]
    for each in sorted(waiting, key=_rank_within):
        namespace = each.desired.namespace
        early = is_early(world, each)
        ranked.append(((shares.is_beyond(each), early, turns[namespace], *_rank_within(each)), each))
        # What waits for its time takes nobody's turn.
        turns[namespace] += not early
    return [each for _, each in sorted(ranked, key=lambda rank: rank[0])]


def _rank_within(progress: Progress) -> tuple[int, str]:
    return progress.attempt.failures if progress.attempt is not None else 0, progress.desired.key


def is_early(world: World, progress: Progress) -> bool:
    """Return whether a cache waits for the time at which it is tried again, or fetched again."""
    return find_due(world, progress) > world.now


def find_due(world: World, progress: Progress) -> float:
    """Return when work on a cache may begin, on the agent's clock; 0 where it need not wait."""
    retry = progress.attempt.retry_at if progress.attempt is not None else 0.0
    pause = world.pauses.get(progress.desired.key) if progress.step is Step.EXTRACT else None
    return max(retry, pause.until if pause is not None else 0.0)
