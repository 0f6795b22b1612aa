"""Plan of the agent's next actions, based on observed values and without I/O.

The agent first moves links, because pods wait for them. It then deletes unused folders. Finally, it starts new work if
there are free slots and enough disk space.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from accelkit.cacheagent.planning.desired_caches import DesiredCache
from accelkit.cacheagent.planning.entries import choose_entries
from accelkit.cacheagent.planning.progress import NextStep, NoRoom, Progress, assess, find_room
from accelkit.cacheagent.planning.shares import Slots, find_due, find_shares, is_early, order_work
from accelkit.cacheagent.planning.usage import Usage, find_usage, merge_uses
from accelkit.cacheagent.planning.world import MOVE_SECONDS, WITHDRAWN, Entry, World, limit_size


@dataclass(frozen=True)
class Move:
    """Change of a link's target.

    Attributes:
        key: key of the cache; None if the link does not belong to a cache.
        link: name of the link.
        target: folder in the store, WITHDRAWN, or None to delete the link.
        late: pods that were still starting when the waiting time ended.
    """

    key: str | None
    link: str
    target: str | None
    late: tuple[str, ...] = ()


@dataclass(frozen=True)
class Work:
    """Work on one cache that can start now.

    Attributes:
        progress: state of the cache.
        about: text that identifies the inputs of the work, as in `Attempt`.
        room_bytes: maximum size of the extracted cache.
    """

    progress: Progress
    about: str
    room_bytes: int


@dataclass(frozen=True)
class AgentPlan:
    """Next actions of the agent.

    Attributes:
        moves: links to move.
        entries: namespace entries that must exist after the moves.
        collect: folders to delete because no cache or pod uses them.
        work: work to start.
        progress: state of each cache, keyed by cache key.
        usage: pods that use each cache, keyed by cache key.
        uses: names of folders that each pod may use. They are recorded before any other action.
        waiting: names of starting pods that delay the move of a link, keyed by cache key.
        no_room: reason why there is not enough space for a cache, keyed by cache key.
        moving_since: value of `World.moving_since` for the next plan.
        next_at: time of the next action if nothing changes; None if no action is scheduled.
    """

    moves: tuple[Move, ...]
    entries: frozenset[Entry]
    collect: tuple[str, ...]
    work: tuple[Work, ...]
    progress: Mapping[str, Progress]
    usage: Mapping[str, Usage]
    uses: Mapping[str, Mapping[str, frozenset[str]]]
    waiting: Mapping[str, tuple[str, ...]]
    no_room: Mapping[str, NoRoom]
    moving_since: Mapping[str, float]
    next_at: float | None


def make_plan(world: World) -> AgentPlan:
    """Return the plan for the observed values."""
    usage = find_usage(world)
    progress = {key: assess(world, desired) for key, desired in sorted(world.desired_caches.items())}
    moves, waiting, since = _plan_links(world, progress, usage)
    work, no_room = _plan_work(world, progress)
    uses = merge_uses(world, usage)
    due = [at for each in progress.values() if (at := find_due(world, each)) > world.now]
    due += [since[key] + MOVE_SECONDS for key in waiting]
    return AgentPlan(
        moves=moves,
        entries=choose_entries(world, progress.values(), _follow_moves(world, moves), uses),
        collect=_find_unneeded(world, progress.values(), uses, moves),
        work=work,
        progress=progress,
        usage=usage,
        uses=uses,
        waiting=waiting,
        no_room=no_room,
        moving_since=since,
        next_at=min(due, default=None),
    )


def _plan_links(
    world: World, progress: Mapping[str, Progress], usage: Mapping[str, Usage]
) -> tuple[tuple[Move, ...], dict[str, tuple[str, ...]], dict[str, float]]:
    moves: list[Move] = []
    waiting: dict[str, tuple[str, ...]] = {}
    since: dict[str, float] = {}
    for key, each in progress.items():
        link, own = each.desired.link, usage.get(key, Usage())
        linked, target = world.links.get(link), _choose_target(world, each)
        if target is None or target == linked:
            continue
        late: tuple[str, ...] = ()
        if linked not in {None, WITHDRAWN} and target != WITHDRAWN and own.starting:
            since[key] = world.moving_since.get(key, world.now)
            late = tuple(str(pod) for pod in own.starting)
            if world.now < since[key] + MOVE_SECONDS:
                waiting[key] = late
                continue
        moves.append(Move(key, link, target, late))
    kept = _list_links(world)
    moves += [Move(None, link, None) for link in sorted(world.links) if link not in kept]
    return tuple(moves), waiting, since


def _follow_moves(world: World, moves: Iterable[Move]) -> dict[str, str]:
    """Return the targets of all links after the moves."""
    moved = {**world.links, **{move.link: move.target for move in moves}}
    return {link: target for link, target in moved.items() if target is not None}


def _list_links(world: World) -> frozenset[str]:
    """Return the names of the links of all existing caches, including caches without a digest."""
    from_desired = {desired.link for desired in world.desired_caches.values() if desired.delivered}
    return frozenset(from_desired | {world.name_link(key) for key in world.unreadable})


def _choose_target(world: World, progress: Progress) -> str | None:
    """Return the desired target of a cache's link; None if the link must not change."""
    desired, linked = progress.desired, world.links.get(progress.desired.link)
    if progress.step is NextStep.SERVE:
        return desired.folder
    if (
        linked is not None
        and linked == desired.folder
        and linked in world.stored
        and world.find_stored(desired) is None
    ):
        # The files in the folder were extracted for a different mount path.
        return WITHDRAWN
    if progress.step is not NextStep.WITHDRAW:
        return None
    if linked is None:
        return None
    former = world.stored.get(linked) if linked != desired.folder else None
    # The new digest is rejected, but the digest that pods currently use satisfies the current policies.
    policies_of_image = world.image_policies.get(desired.key)
    if former is not None and policies_of_image is not None and policies_of_image.policies in former.satisfied:
        return None
    return WITHDRAWN


def _find_unneeded(
    world: World,
    progress: Iterable[Progress],
    uses: Mapping[str, Mapping[str, frozenset[str]]],
    moves: Iterable[Move],
) -> tuple[str, ...]:
    kept = _list_links(world)
    needed = {target for link, target in world.links.items() if link in kept}
    needed |= {move.target for move in moves if move.target is not None}
    needed |= {each.desired.folder for each in progress if each.desired.folder}
    needed |= {folder for by_key in uses.values() for folders in by_key.values() for folder in folders}
    return tuple(sorted({*world.stored, *world.broken} - needed))


def _plan_work(world: World, progress: Mapping[str, Progress]) -> tuple[tuple[Work, ...], dict[str, NoRoom]]:
    work: list[Work] = []
    no_room: dict[str, NoRoom] = {}
    begun = {_name_work(world.desired_caches[key]) for key in world.busy if key in world.desired_caches}
    taken = sum(each.size_bytes for each in world.stored.values())
    promised, shares, slots = sum(world.busy.values()), find_shares(world), Slots(world)
    # Space reserved for waiting caches of namespaces that do not exceed their share. Each folder is counted once.
    kept_bytes, kept = 0, set[str]()
    for each in order_work(world, progress.values(), shares):
        beyond, fetches = shares.is_beyond(each), each.step in {NextStep.READ_IMAGE, NextStep.EXTRACT}
        spoken_for = promised + (kept_bytes if beyond else 0)
        about = _name_work(each.desired)
        missing = find_room(world, each, taken, spoken_for) if each.step is NextStep.EXTRACT else None
        if missing is not None:
            own = find_room(world, each, taken, promised)
            no_room[each.desired.key] = own or replace(missing, message=missing.message + shares.explain(each))
        may_begin = slots.has(each.desired.namespace) and not is_early(world, each) and about not in begun
        if missing is None and may_begin:
            begun.add(about)
            slots.take(each.desired.namespace)
            room = limit_size(world.disk, taken, spoken_for, fetches=fetches)
            work.append(Work(each, world.describe_work(each.desired), room))
            promised += each.needs_bytes if each.step is NextStep.EXTRACT else 0
        elif fetches and not beyond and about not in begun and about not in kept:
            kept.add(about)
            kept_bytes += each.needs_bytes
    return tuple(work), no_room


def _name_work(desired: DesiredCache) -> str:
    """Return an identifier of the work on a cache: the folder name, or the digest if only labels are read."""
    return desired.folder or desired.digest
