"""Namespaces take turns, and one that has more than its share of the disk comes last."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agent_worlds import GIB, desired, folder, image_facts, stored, world

from accelkit.cacheagent.planning.desired_caches import DesiredCache
from accelkit.cacheagent.planning.plan import AgentPlan, make_plan
from accelkit.cacheagent.planning.world import Attempt, Disk, ImageFacts

ROOM = Disk(100 * GIB)


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


def caches(namespace: str, *numbers: int) -> list[DesiredCache]:
    return [desired(digest(number), f"{namespace}/c{number}") for number in numbers]


def sizes(gib: int, *numbers: int) -> dict[str, ImageFacts]:
    return {digest(number): image_facts(gib * GIB) for number in numbers}


def begun(made: AgentPlan) -> list[str]:
    return [each.progress.desired.key for each in made.work]


def test_namespaces_are_served_in_turn():
    """A namespace that has new work for ever would starve all others."""
    made = make_plan(world(*caches("a", *range(1, 51)), *caches("z", 90), *caches("", 80)))
    assert begun(made) == ["/c80", "a/c1", "z/c90", "a/c10"]


@pytest.mark.parametrize(("others", "most"), [((), 4), (("z",), 3)])
def test_no_namespace_gets_all_slots_if_several_request_work(others, most):
    """Its registry may be slow on purpose: who comes meanwhile is not kept waiting for it."""
    failed = Attempt("", 1, "RegistryUnavailable", "away", 2000.0)
    known = world(*caches("a", *range(1, 9)), *(each for name in others for each in caches(name, 90)))
    late = {
        key: replace(failed, about=known.describe_work(each))
        for key, each in known.desired_caches.items()
        if key[0] == "z"
    }
    assert len(begun(make_plan(replace(known, attempts=late)))) == most
    busy = dict.fromkeys(("a/c1", "a/c2", "a/c3"), 0)
    assert len(begun(make_plan(replace(known, attempts=late, busy=busy, slots=1)))) == most - 3


def test_running_work_counts_as_turn_and_waiting_work_does_not():
    known = world(*caches("a", *range(1, 6)), *caches("z", 90, 91))
    made = make_plan(replace(known, busy={"a/c1": 0, "a/c2": 0, "a/c3": 0}, slots=1))
    assert begun(made) == ["z/c90"]
    known = world(*caches("a", 1), *caches("z", 90, 91))
    attempts = {
        "z/c90": Attempt(known.describe_work(known.desired_caches["z/c90"]), 1, "RegistryUnavailable", "away", 2000.0),
    }
    made = make_plan(replace(known, attempts=attempts, slots=2))
    assert begun(made) == ["a/c1", "z/c91"]


def test_namespace_above_its_share_is_served_last():
    """The budget is 20 GiB for two: 8 of `a` lie here, so with 4 more it would have more than its 10."""
    given = {
        "stored": {folder(digest(1)): stored(size=8 * GIB, policies="q")},
        "image_facts": sizes(4, 2, 90),
        "disk": Disk(100 * GIB, 20 * GIB),
    }
    made = make_plan(world(*caches("a", 1, 2), *caches("z", 90), **given))
    # What lies there has yet to satisfy the policies, and needs no room.
    assert begun(made) == ["a/c1", "z/c90", "a/c2"]


@pytest.mark.parametrize(("slots", "retry_at", "size"), [(0, 0.0, 4), (4, 2000.0, 4), (4, 2000.0, 9)])
def test_room_is_reserved_for_namespaces_within_their_share(slots, retry_at, size):
    """14 of 20 GiB lie here for `a`; 6 are left, and `z`, which has nothing, waits for a slot or its time."""
    known = world(
        *caches("a", 1, 2),
        *caches("z", 90),
        stored={folder(digest(1)): stored(size=14 * GIB)},
        image_facts=sizes(4, 2) | sizes(size, 90),
        disk=Disk(100 * GIB, 20 * GIB),
        slots=slots,
    )
    waits = Attempt(known.describe_work(known.desired_caches["z/c90"]), 1, "RegistryUnavailable", "away", retry_at)
    made = make_plan(replace(known, attempts={"z/c90": waits}))
    assert "a/c2" not in begun(made)
    full = made.no_room["a/c2"]
    assert full.reason == "OverBudget"
    assert "namespace a has 14.00 GiB, and namespaces with at most 10.00 GiB have precedence" in full.message
    # Alone it has all of the room.
    alone = make_plan(
        replace(
            known, desired_caches={key: each for key, each in known.desired_caches.items() if key[0] == "a"}, slots=4
        )
    )
    assert "a/c2" in begun(alone)


def test_unverified_caches_do_not_reduce_shares():
    junk = [desired(digest(number), f"j{number}/c", verified=False) for number in range(200, 220)]
    given = {
        "stored": {folder(digest(1)): stored(size=4 * GIB)},
        "image_facts": sizes(4, 2, 90),
        "disk": Disk(100 * GIB, 20 * GIB),
        "slots": 1,
    }
    made = make_plan(world(*caches("a", 1, 2), *caches("z", 90), *junk, **given))
    assert begun(made) == ["a/c2"]


def test_no_namespace_waits_while_all_work_fits():
    made = make_plan(world(*caches("a", 1, 2), *caches("z", 90), image_facts=sizes(30, 1, 2, 90), disk=ROOM))
    assert begun(made) == ["a/c1", "z/c90", "a/c2"]
    assert not made.no_room


def test_files_of_several_namespaces_are_divided_among_them():
    """Both have half of 12 GiB, so neither has more than its 10 with 4 more."""
    both = [desired(digest(1), f"{namespace}/c1") for namespace in ("a", "z")]
    given = {
        "stored": {folder(digest(1)): stored(size=12 * GIB)},
        "image_facts": sizes(4, 2, 90),
        "disk": Disk(100 * GIB, 20 * GIB),
    }
    made = make_plan(world(*both, *caches("a", 2), *caches("z", 90), **given))
    assert {"a/c2", "z/c90"} <= set(begun(made))
    assert not made.no_room


def test_former_files_of_running_pods_count_for_their_namespace():
    used = {"uid-p": {"a/gone": frozenset({folder(digest(1))})}}
    known = world(
        *caches("a", 2),
        *caches("z", 90),
        stored={folder(digest(1)): stored(size=8 * GIB)},
        uses=used,
        image_facts=sizes(4, 2, 90),
        disk=Disk(100 * GIB, 20 * GIB),
        slots=1,
    )
    assert begun(make_plan(known)) == ["z/c90"]


@pytest.mark.parametrize(("free", "reason"), [(25, ""), (24, "NodeFull")])
def test_configured_part_of_disk_is_kept_free(free, reason):
    disk = Disk(free * GIB, total_bytes=100 * GIB, min_free_percent=15.0, min_free_bytes=GIB)
    made = make_plan(world(*caches("a", 1), disk=disk, image_facts=sizes(10, 1)))
    assert begun(made) == ([] if reason else ["a/c1"])
    assert [each.reason for each in made.no_room.values()] == ([reason] if reason else [])
    assert not reason or "15.00 GiB must stay free" in made.no_room["a/c1"].message


def test_extraction_limit_keeps_disk_reserve_free():
    disk = Disk(40 * GIB, total_bytes=100 * GIB, min_free_percent=15.0)
    known = world(*caches("a", 1), *caches("z", 90), disk=disk, image_facts=sizes(1, 1))
    (work,) = make_plan(replace(known, busy={"z/c90": 5 * GIB})).work
    assert work.room_bytes == 20 * GIB
