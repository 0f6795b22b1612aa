"""What is done next: which links move, what is collected, what work begins within slots and limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from agent_worlds import FOREIGN, GIB, A, B, C, desired, folder, image_facts, link, pod, stored, world

from accelkit.cacheagent.planning.desired_caches import Refusal
from accelkit.cacheagent.planning.plan import AgentPlan, Move, make_plan
from accelkit.cacheagent.planning.progress import NextStep
from accelkit.cacheagent.planning.world import MOVE_SECONDS, WITHDRAWN, Attempt, Disk, ImagePolicies
from accelkit.gkm import names

REFUSED = Refusal("NoSignatures", "nothing is attached to it")


BOTH = {folder(A): stored(), folder(B): stored()}
AT_A = {"stored": BOTH, "links": {link(): folder(A)}}
STARTING = (pod("p", starting=True),)


REFUSED_B = desired(B, verified=False, refusal=REFUSED)


def plan(*desired_caches, **changes: Any) -> AgentPlan:
    return make_plan(world(*desired_caches, **changes))


def move_of(made: AgentPlan) -> tuple[str | None, ...]:
    return tuple(each.target for each in made.moves)


@pytest.mark.parametrize(
    ("known", "changes", "targets"),
    [
        # Nothing is there yet, so nobody waits for anybody.
        (desired(B), {"stored": BOTH}, (folder(B),)),
        (desired(B), {"stored": BOTH, "pods": STARTING}, (folder(B),)),
        (desired(B), {"stored": BOTH, "links": {link(): folder(B)}}, ()),
        (desired(B), AT_A, (folder(B),)),
        (desired(B), {**AT_A, "pods": (pod("p"),)}, (folder(B),)),
        (desired(B), {**AT_A, "pods": STARTING}, ()),
        # Of another cache, of another namespace, or pinned: none of them follows this link.
        (desired(B), {**AT_A, "pods": (pod("p", "x", starting=True),)}, (folder(B),)),
        (desired(B), {**AT_A, "pods": (pod("p", "add", namespace="x", starting=True),)}, (folder(B),)),
        (desired(B), {**AT_A, "pods": (pod("p", f"add-{'a' * 12}", starting=True),)}, (folder(B),)),
        # What was withdrawn held the pod back; it is not kept waiting.
        (desired(B), {"stored": BOTH, "links": {link(): WITHDRAWN}, "pods": STARTING}, (folder(B),)),
        # It is not there yet.
        (desired(B), {**AT_A, "stored": {folder(A): stored()}}, ()),
        # Withdrawn, also from pods that are starting.
        (desired(A, verified=False, refusal=REFUSED), {**AT_A, "pods": STARTING}, (WITHDRAWN,)),
        (desired(A, verified=False, refusal=REFUSED), {"stored": BOTH}, ()),
        # A new digest is refused: pods keep the former one while the present policies accept it.
        (REFUSED_B, AT_A, ()),
        (REFUSED_B, {**AT_A, "stored": {folder(A): stored(policies="q")}}, (WITHDRAWN,)),
        (desired(verified=None), AT_A, ()),
        (desired(A), {**AT_A, "stored": {folder(A): stored(labels=FOREIGN)}}, (WITHDRAWN,)),
    ],
)
def test_link_target_follows_state_of_cache(known, changes, targets):
    assert move_of(plan(known, **changes)) == targets


@pytest.mark.parametrize(
    ("links", "targets"),
    [({}, ()), ({link(): folder(A)}, (WITHDRAWN,)), ({link(): WITHDRAWN}, ()), ({link(): folder(B)}, ())],
)
def test_files_for_another_mount_path_are_not_served(links, targets):
    """Whoever finds two mount paths of one name, or moves folders, has pods see files that say another's path."""
    there = {folder(A): stored(path="/opt/m45943"), folder(B): stored()}
    made = plan(desired(A), stored=there, links=links)
    assert move_of(made) == targets
    assert made.progress["team/add"].step is NextStep.READ_IMAGE
    assert folder(A) not in made.collect


def test_link_move_waits_for_starting_pods_with_timeout():
    given = {"stored": BOTH, "links": {link(): folder(A)}, "pods": (pod("p", starting=True),)}
    first = plan(desired(B), **given)
    assert (first.waiting, first.moving_since) == ({"team/add": ("team/p",)}, {"team/add": 1000.0})
    assert first.next_at == 1000.0 + MOVE_SECONDS
    assert folder(A) not in first.collect
    early = plan(desired(B), **given, moving_since=first.moving_since, now=1000.0 + MOVE_SECONDS - 1)
    assert not early.moves
    late = plan(desired(B), **given, moving_since=first.moving_since, now=1000.0 + MOVE_SECONDS)
    assert late.moves == (Move("team/add", link(), folder(B), ("team/p",)),)
    # Another pod begins to start meanwhile: that does not begin the wait anew.
    again = plan(
        desired(B), **{**given, "pods": (pod("q", starting=True),)}, moving_since={"team/add": 1000.0}, now=1299.0
    )
    assert again.moving_since == {"team/add": 1000.0}


def test_links_without_cache_are_deleted_and_those_of_unreadable_caches_kept():
    links = {link("team/gone"): folder(A), link("team/odd"): folder(B)}
    made = plan(stored=BOTH, links=links, unreadable=frozenset({"team/odd"}))
    assert made.moves == (Move(None, link("team/gone"), None),)
    assert made.collect == (folder(A),)
    here = desired(A, mount_path="", folder=names.name_folder(A, ""))
    made = plan(here, stored={here.folder: stored(path=f"/store/{here.folder}/cache")})
    assert move_of(made) == (here.folder,)


@pytest.mark.parametrize(
    ("changes", "collected"),
    [
        ({"stored": BOTH}, {folder(A)}),
        ({"stored": BOTH, "links": {link(): folder(A)}}, set()),
        ({"stored": BOTH, "links": {link(): folder(B)}, "pods": (pod("p", f"add-{'a' * 12}"),)}, set()),
        ({"stored": BOTH, "links": {link(): folder(B)}, "pods": (pod("p", f"add-{'b' * 12}"),)}, {folder(A)}),
        # Of a pod that followed the link when it led there.
        ({"stored": BOTH, "pods": (pod("p"),), "uses": {"uid-p": {"team/add": frozenset({folder(A)})}}}, set()),
        ({"stored": BOTH, "uses": {"uid-p": {"team/add": frozenset({folder(A)})}}}, {folder(A)}),
        # Of a pod whose cache is gone.
        ({"stored": BOTH, "pods": (pod("p"),), "uses": {"uid-p": {"team/x": frozenset({folder(A)})}}}, set()),
        ({"stored": BOTH, "broken": frozenset({folder(C)})}, {folder(A), folder(C)}),
    ],
)
def test_unused_folders_are_collected(changes, collected):
    # B is asked for and lies here, and the link follows where it has to move.
    given = {"image_policies": {"team/add": ImagePolicies("other")}, **changes}
    assert set(plan(desired(B), **given).collect) == collected


def test_files_of_deleted_cache_are_kept_for_its_pods():
    given = {"stored": BOTH, "links": {link(): folder(A)}}
    before = plan(desired(A), **given, pods=(pod("p"),))
    assert before.uses == {"uid-p": {"team/add": frozenset({folder(A)})}}
    after = plan(stored=BOTH, links={}, pods=(pod("p"),), uses=before.uses)
    assert after.collect == (folder(B),)
    assert after.uses == before.uses
    assert plan(stored=BOTH, uses=before.uses).collect == (folder(A), folder(B))


def test_each_digest_that_pod_may_use_is_kept():
    odd = replace(pod("odd"), claims=frozenset(), readable=False)
    made = plan(desired(B), stored=BOTH, links={link(): folder(B)}, pods=(odd,))
    assert made.collect == ()
    assert made.uses["uid-odd"][""] == {folder(A), folder(B)}
    uses = {"uid-p": {"team/add": frozenset({folder(A)})}}
    made = plan(desired(B), stored=BOTH, links={link(): folder(B)}, pods=(pod("p"),), uses=uses)
    assert made.uses["uid-p"]["team/add"] == {folder(A), folder(B)}
    assert {each: len(pods) for each, pods in made.usage["team/add"].pods.items()} == {folder(A): 1, folder(B): 1}


def desired_caches(count: int) -> list:
    return [desired(f"sha256:{number:064x}", f"team/c{number}") for number in range(count)]


@pytest.mark.parametrize(("slots", "count", "begun"), [(4, 10, 4), (0, 10, 0), (4, 2, 2)])
def test_work_is_limited_by_slots(slots, count, begun):
    assert len(plan(*desired_caches(count), slots=slots).work) == begun


def test_equal_files_are_downloaded_once_and_failed_work_is_last():
    one, two, three = desired(A, "team/one"), desired(A, "team/two"), desired(B, "team/three")
    known = world(one, two, three)
    failed = Attempt(known.describe_work(one), 3, "RegistryUnavailable", "away", 999.0)
    made = make_plan(replace(known, attempts={"team/one": failed}))
    assert [each.progress.desired.key for each in made.work] == ["team/three", "team/two"]
    busy = make_plan(replace(known, busy={"team/two": 0}))
    assert [each.progress.desired.key for each in busy.work] == ["team/three"]


def test_failed_work_waits_for_retry_time():
    known = world(desired())
    failed = Attempt(known.describe_work(desired()), 1, "RegistryUnavailable", "away", 1005.0)
    made = make_plan(replace(known, attempts={"team/add": failed}))
    assert (made.work, made.next_at) == ((), 1005.0)
    assert len(make_plan(replace(known, attempts={"team/add": failed}, now=1005.0)).work) == 1
    # With another digest it is begun at once.
    assert len(make_plan(replace(world(desired(B)), attempts={"team/add": failed})).work) == 1


@pytest.mark.parametrize(
    ("disk", "size", "taken", "busy", "reason"),
    [
        (Disk(100 * GIB), 10 * GIB, 0, 0, ""),
        (Disk(100 * GIB, 20 * GIB), 10 * GIB, 10 * GIB, 0, ""),
        (Disk(100 * GIB, 20 * GIB), 10 * GIB, 11 * GIB, 0, "OverBudget"),
        (Disk(100 * GIB, 20 * GIB), 10 * GIB, 5 * GIB, 6 * GIB, "OverBudget"),
        (Disk(9 * GIB), 10 * GIB, 0, 0, "NodeFull"),
        (Disk(15 * GIB), 10 * GIB, 0, 6 * GIB, "NodeFull"),
        (Disk(15 * GIB, None, 6 * GIB), 10 * GIB, 0, 0, "NodeFull"),
        (Disk(16 * GIB, None, 6 * GIB), 10 * GIB, 0, 0, ""),
    ],
)
def test_work_without_enough_room_is_not_started(disk, size, taken, busy, reason):
    other = desired(C, "team/other")
    given = {"stored": {folder(B): stored(size=taken)}} if taken else {}
    made = plan(
        desired(), other, desired(B, "team/there"), disk=disk, image_facts={A: image_facts(size), C: image_facts(busy)},
        busy={"team/other": busy}, **given,
    )  # fmt: skip
    assert (made.no_room["team/add"].reason if "team/add" in made.no_room else "") == reason
    assert bool([each for each in made.work if each.progress.desired.key == "team/add"]) is not bool(reason)
    if reason:
        assert "10.00 GiB" in made.no_room["team/add"].message
        # Nobody else waits.
        assert "have precedence" not in made.no_room["team/add"].message


def test_work_fits_into_remaining_budget():
    made = plan(desired(), stored={folder(A): stored()}, links={link(): folder(A)})
    assert (made.work, made.progress["team/add"].step) == ((), NextStep.SERVE)
    made = plan(
        desired(), disk=Disk(100 * GIB, GIB), image_facts={A: image_facts(5)}, stored={folder(B): stored(size=GIB // 2)}
    )
    assert made.work[0].room_bytes == GIB // 2
    one, two = desired(A, "team/one"), desired(B, "team/two")
    made = plan(
        one, two, disk=Disk(100 * GIB, 10 * GIB), image_facts={A: image_facts(6 * GIB), B: image_facts(6 * GIB)}
    )
    assert [each.progress.desired.key for each in made.work] == ["team/one"]
    assert made.no_room["team/two"].reason == "OverBudget"
