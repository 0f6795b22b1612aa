"""What is next for a cache, as a table of what is known of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from agent_worlds import FOREIGN, TODAY, A, desired, folder, image_facts, stored, world

from accelkit.cacheagent.planning.desired_caches import Refusal
from accelkit.cacheagent.planning.observed import OwnNode
from accelkit.cacheagent.planning.progress import NextStep, assess
from accelkit.cacheagent.planning.world import RETRIES, Attempt, ImagePolicies
from accelkit.kernelcache.compatibility.node_facts import NodeHardware

DAY = 86400.0
NOT_COVERED = Refusal("NotCovered", "no SignerPolicy covers it")


def step(known=None, **changes) -> NextStep:
    asked = known or desired()
    return assess(world(asked, **changes), asked).step


@pytest.mark.parametrize(
    ("known", "changes", "expected"),
    [
        (desired(verified=None), {}, NextStep.NOTHING),
        (desired(), {}, NextStep.READ_IMAGE),
        (desired(), {"image_facts": {A: image_facts()}}, NextStep.EXTRACT),
        (desired(), {"stored": {folder(A): stored()}}, NextStep.SERVE),
        (desired(), {"stored": {folder(A): stored(policies="former")}}, NextStep.VERIFY),
        (desired(verified=None), {"stored": {folder(A): stored()}}, NextStep.NOTHING),
        (desired(verified=False, refusal=NOT_COVERED), {"stored": {folder(A): stored()}}, NextStep.WITHDRAW),
        (desired(), {"image_policies": {"team/add": ImagePolicies("p", refusal=NOT_COVERED)}}, NextStep.WITHDRAW),
        (desired(), {"image_policies": {"team/add": ImagePolicies("p", undecided=NOT_COVERED)}}, NextStep.NOTHING),
        # Before anything but the labels is fetched, and also where it lies here already.
        (desired(), {"image_facts": {A: image_facts(labels=FOREIGN)}}, NextStep.WITHDRAW),
        (desired(), {"stored": {folder(A): stored(labels=FOREIGN)}}, NextStep.WITHDRAW),
        # Unknown cards are no reason to refuse.
        (
            desired(),
            {"image_facts": {A: image_facts(labels=FOREIGN)}, "node": OwnNode(NodeHardware())},
            NextStep.EXTRACT,
        ),
        (desired(), {"image_facts": {A: image_facts()}, "node": OwnNode(NodeHardware(gpus=()))}, NextStep.WITHDRAW),
        (desired(image=None, folder="", verified=None), {}, NextStep.NOTHING),
        (desired(image=None, folder="", verified=False, refusal=NOT_COVERED), {}, NextStep.WITHDRAW),
    ],
)
def test_next_step_follows_state_of_cache(known, changes, expected):
    assert step(known, **changes) is expected


@pytest.mark.parametrize(
    ("age", "believed", "expected"),
    [
        (0, DAY, NextStep.SERVE),
        (DAY - 1, DAY, NextStep.SERVE),
        (DAY, DAY, NextStep.VERIFY),
        (DAY, 7 * DAY, NextStep.SERVE),
        # A time that lies ahead says that a clock was wrong.
        (-1, DAY, NextStep.VERIFY),
        # A policy that believes nothing for longer than a moment must not keep nodes looking without end.
        (1, 0, NextStep.SERVE),
        (299, 60, NextStep.SERVE),
        (300, 60, NextStep.VERIFY),
    ],
)
def test_verdict_is_valid_for_time_set_by_policies(age, believed, expected):
    files = {folder(A): stored(at=TODAY - age)}
    assert step(stored=files, image_policies={"team/add": ImagePolicies("p", verdict_seconds=believed)}) is expected


@pytest.mark.parametrize(
    ("attempt", "refused"),
    [
        ({"refused": True}, True),
        ({"refused": True, "retry_at": 1000.0}, False),
        ({"refused": True, "about": "another digest"}, False),
        ({"refused": False}, False),
    ],
)
def test_refusal_by_node_is_valid_until_retry(attempt, refused):
    known = world(desired(), stored={folder(A): stored(policies="former")})
    about = known.describe_work(desired())
    given = {"about": about, "failures": 1, "reason": "NoSignatures", "message": "none", "retry_at": 1300.0, **attempt}
    found = assess(replace(known, attempts={"team/add": Attempt(**given)}), desired())
    assert found.step is (NextStep.WITHDRAW if refused else NextStep.VERIFY)
    assert (found.refusal is not None) is refused


def test_work_is_identified_by_digest_path_and_policies():
    known = world(desired())
    assert known.describe_work(desired()) == known.describe_work(desired(cache_bytes=5))
    for other in (desired("sha256:" + "b" * 64), desired(mount_path="/x")):
        assert known.describe_work(desired()) != known.describe_work(other)
    others = world(desired(), image_policies={"team/add": ImagePolicies("q")})
    assert known.describe_work(desired()) != others.describe_work(desired())
    assert (
        assess(world(desired(cache_bytes=50), image_facts={A: image_facts(70)}), desired(cache_bytes=50)).needs_bytes
        == 70
    )
    assert assess(world(desired(cache_bytes=50)), desired(cache_bytes=50)).needs_bytes == 50


@pytest.mark.parametrize(("failures", "seconds"), [(0, 5), (1, 5), (2, 10), (3, 20), (7, 300), (10_000, 300)])
def test_retry_delay_grows_with_failures(failures, seconds):
    assert RETRIES.compute(failures) == seconds
