"""Caches whose files come to pods otherwise: a node says what its cards make of them, and holds nothing of theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from agent_worlds import FOREIGN, A, B, desired, folder, image_facts, link, pod, stored, world
from test_desired_caches import cache

from accelkit.cacheagent.planning.desired_caches import DesiredCache, Refusal, read_desired_cache
from accelkit.cacheagent.planning.plan import make_plan
from accelkit.cacheagent.planning.progress import NextStep, assess
from accelkit.cacheagent.planning.world import Attempt, Disk, ImagePolicies, World
from accelkit.cacheagent.reporting.report import build_reports
from accelkit.gkm.objects import NodeStatus

KEY = "team/add"


def elsewhere(digest: str = A, key: str = KEY, **changes: Any) -> DesiredCache:
    return desired(digest, key, **{"delivered": False, "folder": "", "mount_path": "", **changes})


def report(known: World) -> NodeStatus:
    return build_reports(known, make_plan(known), {}, node_name="n", root="/store")["team"]


@pytest.mark.parametrize("delivery", ["namespace", "image"])
def test_cache_delivered_without_node_files_has_digest_and_no_folder(delivery):
    asked = read_desired_cache(cache(delivery=delivery, mount_path="/a/../b"))
    assert (asked.delivered, asked.digest, asked.folder, asked.secrets) == (False, A, "", ("login",))


@pytest.mark.parametrize(
    ("known", "step"),
    [
        (world(elsewhere()), NextStep.READ_IMAGE),
        (world(elsewhere(), image_facts={A: image_facts()}), NextStep.NOTHING),
        # As of all others: no registry is asked for what nobody has verified.
        (world(elsewhere(verified=None)), NextStep.NOTHING),
        (world(elsewhere(verified=False, refusal=Refusal("NoSignatures", ""))), NextStep.NOTHING),
        (
            world(elsewhere(), image_policies={KEY: ImagePolicies("p", refusal=Refusal("NotCovered", ""))}),
            NextStep.NOTHING,
        ),
        (
            world(elsewhere(), image_policies={KEY: ImagePolicies("p", undecided=Refusal("PolicyUnreadable", ""))}),
            NextStep.NOTHING,
        ),
        (world(elsewhere(image=None)), NextStep.NOTHING),
    ],
)
def test_only_labels_of_image_are_read(known, step):
    assert assess(known, known.desired_caches[KEY]).step is step
    assert [each.progress.step for each in make_plan(known).work] == ([step] if step is NextStep.READ_IMAGE else [])


def test_labels_are_read_once_per_digest_regardless_of_disk_space():
    known = world(elsewhere(), elsewhere(key="team/same"), elsewhere(B, key="team/other"))
    assert [each.progress.desired.digest for each in make_plan(known).work] == [A, B]
    known = world(
        elsewhere(cache_bytes=1 << 40), desired(B, "team/here"), image_facts={B: image_facts()}, disk=Disk(1000)
    )
    assert [each.progress.step for each in make_plan(known).work] == [NextStep.READ_IMAGE, NextStep.EXTRACT]


@pytest.mark.parametrize(
    ("labels", "told", "fit", "misfit"),
    [
        (image_facts(), ("True", "Compatible"), [0], []),
        (image_facts(labels=FOREIGN), ("False", "Incompatible"), [], [0]),
        (None, ("Unknown", "Pending"), [], []),
    ],
)
def test_only_compatibility_of_each_card_is_reported(labels, told, fit, misfit):
    found = report(world(elsewhere(), image_facts={A: labels} if labels else {})).caches["add"][A]
    assert [(each.type, each.status, each.reason) for each in found.conditions] == [("Compatible", *told)]
    assert (found.compatible_gpus, found.incompatible_gpus) == (fit, misfit)
    assert (found.path, found.volume_size, found.pods) == ("", 0, [])


def test_reason_for_unreadable_labels_is_reported():
    known = world(elsewhere())
    about = known.describe_work(elsewhere())
    known = replace(known, attempts={KEY: Attempt(about, 2, "RegistryUnavailable", "no answer", 1100.0)})
    (told,) = report(known).caches["add"][A].conditions
    assert (told.status, told.reason) == ("Unknown", "RegistryUnavailable")
    assert told.message == "no answer (failure 2, retry scheduled)"


def test_earlier_files_are_deleted_after_last_pod_ends():
    known = world(elsewhere(), image_facts={A: image_facts()}, pods=(pod("uses"),))
    assert (make_plan(known).usage, make_plan(known).uses) == ({}, {})
    assert report(known).counts.node_in_use_cnt == 0
    known = world(elsewhere(), stored={folder(A): stored()}, links={link(): folder(A)})
    plan = make_plan(known)
    assert [(each.link, each.target) for each in plan.moves] == [(link(), None)]
    assert plan.collect == (folder(A),)
    used = replace(known, pods=(pod("uses"),), uses={"uid-uses": {KEY: frozenset({folder(A)})}})
    assert make_plan(used).collect == ()
