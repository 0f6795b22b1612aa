"""Whether workloads hit, from what they made themselves, and why not."""

from dataclasses import replace

import pytest
from agent_worlds import A, desired, folder, link, pod, stored, world

from accelkit.cacheagent.planning.usage import find_usage
from accelkit.cacheagent.reporting.effect import (
    MissedFiles,
    MissKind,
    assign_missed,
    describe_effect,
    find_differing,
)

TRITON = MissedFiles(3, {MissKind.TRITON: 3})
VLLM = MissedFiles(2, {MissKind.VLLM: 2})
OTHER = MissedFiles(1, {MissKind.OTHER: 1})
NEW_KEY = MissedFiles(9, {MissKind.VLLM: 9}, 1)
UNSEEN = MissedFiles(bounded=True)


@pytest.mark.parametrize(
    ("missed", "status", "reason", "words"),
    [
        ([], "Unknown", "NotMeasured", "no pod has a private copy"),
        # None found among what was looked at is not the same as none made.
        ([UNSEEN], "Unknown", "NotMeasured", "no pod has"),
        ([MissedFiles()], "True", "Hits", "pods that have created no files: 1"),
        ([MissedFiles(), UNSEEN], "True", "Hits", "pods that have created no files: 1"),
        ([TRITON], "False", "Misses", "Triton kernels"),
        ([VLLM, MissedFiles()], "False", "Misses", "1 of 2 pods created 2 files: team/p0 (2); files"),
        (
            [NEW_KEY],
            "False",
            "Misses",
            "1 new folders in vLLM's cache: the key differs, possibly because of a VLLM_* variable",
        ),
        ([NEW_KEY], "False", "Misses", "the path of the model, an address of the pod, or the version of vLLM"),
        ([OTHER], "False", "Misses", "no supported framework"),
        ([MissedFiles(7, bounded=True)], "False", "Misses", "created at least 7 files"),
        ([MissedFiles(1, {MissKind.OTHER: 1})] * 8, "False", "Misses", "8 of 8 pods created 8 files"),
    ],
)
def test_effective_condition_names_pods_and_probable_cause(missed, status, reason, words):
    found = describe_effect([(f"team/p{number}", each) for number, each in enumerate(missed)])
    assert (found.status, found.reason) == (status, reason)
    assert words in found.message


@pytest.mark.parametrize(
    ("differing", "words", "unsaid"),
    [
        (
            ["VLLM_A", "VLLM_B"],
            "the key differs, probably because pods set VLLM_A, VLLM_B to different values than at capture",
            "path",
        ),
        ([f"VLLM_{number}" for number in range(9)], "VLLM_4 and 4 more to different values", "VLLM_5"),
        (
            [],
            "possibly because of a VLLM_* variable without a literal value in the pod, the path of the model",
            "probably because",
        ),
        (None, "possibly because of a VLLM_* variable, the path of the model", "probably because"),
    ],
)
def test_new_vllm_folders_are_reported_with_differing_variables(differing, words, unsaid):
    found = describe_effect([("team/p", NEW_KEY)], differing=differing)
    assert words in found.message
    assert unsaid not in found.message
    # They explain no other miss.
    assert "otherwise than" not in describe_effect([("team/p", TRITON)], differing=differing).message


def test_only_variables_of_containers_that_mount_cache_are_compared():
    mine, others = {"VLLM_USE_V1": "0", "VLLM_NEW": "1"}, {"VLLM_OTHER": "7"}
    both = replace(
        pod("p", "add", "other", accelkit_cache_1="add", accelkit_cache_2="other"),
        variables={"accelkit-cache-1": ({"VLLM_USE_V1": "true"}, mine), "accelkit-cache-2": (others,)},
    )
    recorded = {"VLLM_USE_V1": "1", "VLLM_OTHER": "1", "VLLM_SECRET": "[redacted]"}
    assert find_differing([both], desired(), recorded) == ["VLLM_USE_V1"]
    assert find_differing([both], desired(key="team/other"), recorded) == ["VLLM_OTHER"]
    assert find_differing([both], desired(), {"VLLM_USE_V1": "[redacted]"}) == []
    assert find_differing([both], desired(), {}) is None
    assert find_differing([], desired(), recorded) == []


def test_misses_are_summed_per_pod_and_at_most_five_pods_are_named():
    found = describe_effect([(f"team/p{number}", TRITON) for number in range(9)])
    assert found.message.count("team/p") == 5
    assert TRITON.add(MissedFiles(2, {MissKind.TRITON: 1, MissKind.OTHER: 1}, 1, bounded=True)) == MissedFiles(
        5, {MissKind.TRITON: 4, MissKind.OTHER: 1}, 1, bounded=True
    )


def test_private_copies_of_two_caches_in_one_pod_are_counted_separately():
    add, other = desired(), desired(key="team/other", namespaces=("team",))
    both = pod("p", f"add-{'a' * 12}", "other", accelkit_cache_1=f"add-{'a' * 12}", accelkit_cache_2="other")
    known = world(add, other, pods=(both,), stored={folder(A): stored()}, links={link("team/other"): folder(A)})
    found = {("uid-p", "accelkit-cache-1"): TRITON, ("uid-p", "accelkit-cache-2"): VLLM}
    assert assign_missed(found, known.desired_caches, find_usage(known)) == {
        "team/add": {"uid-p": TRITON},
        "team/other": {"uid-p": VLLM},
    }


@pytest.mark.parametrize(
    "found",
    [
        {},
        {("uid-p", "accelkit-cache-1"): UNSEEN},
        # The scan names what it found, and whoever wrote it may be wrong.
        {("uid-q", "accelkit-cache-1"): TRITON, ("uid-p", "accelkit-cache-9"): TRITON},
    ],
)
def test_copies_without_valid_scan_result_are_not_counted(found):
    known = world(
        desired(), pods=(pod("p", accelkit_cache_1="add"),), stored={folder(A): stored()}, links={link(): folder(A)}
    )
    assert assign_missed(found, known.desired_caches, find_usage(known)) == {}
