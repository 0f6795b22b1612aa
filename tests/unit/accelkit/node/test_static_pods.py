"""Whose cgroup a pod's is: nobody takes another one's by an annotation."""

from __future__ import annotations

import msgspec
import pytest

from accelkit.model.pod import Pod
from accelkit.node.static_pods import StaticPods

HASH, MIRROR = "kubernetes.io/config.hash", "kubernetes.io/config.mirror"


def pod(name, **annotations):
    keys = {"hash_": HASH, "mirror": MIRROR}
    found = {keys[key]: value for key, value in annotations.items()}
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": "d", "uid": f"uid-{name}", "annotations": found}}, Pod
    )


def uid(*pods, shown=("p",)):
    static = StaticPods()
    for each in pods:
        static.put(each)
    static.confirm({("d", name) for name in shown})
    assert static.find_cgroup_uid("uid-p") in static.list_cgroup_uids()
    return static.find_cgroup_uid("uid-p")


STATIC = pod("p", hash_="abc123", mirror="abc123")


def test_a_mirror_pod_that_the_kubelet_shows_has_the_kubelets_uid():
    assert uid(STATIC) == "abc123"
    assert uid(STATIC, shown=()) == "uid-p"


@pytest.mark.parametrize(
    "annotations",
    [
        {"hash_": "abc123"},
        {"mirror": "abc123"},
        {"hash_": "abc123", "mirror": "other"},
        {"hash_": "../../x", "mirror": "../../x"},
        {"hash_": "", "mirror": ""},
    ],
)
def test_what_is_no_mirror_pod_is_its_own(annotations):
    assert uid(pod("p", **annotations)) == "uid-p"


def test_a_uid_that_two_pods_claim_is_neithers():
    assert uid(STATIC, pod("q", hash_="abc123", mirror="abc123"), shown=("p", "q")) == "uid-p"


def test_a_claim_of_a_pod_that_the_kubelet_does_not_show_counts_for_nothing():
    assert uid(STATIC, pod("q", hash_="abc123", mirror="abc123")) == "abc123"


def test_a_pod_that_is_gone_claims_nothing():
    static = StaticPods([("d", "p"), ("d", "q")])
    static.put(STATIC)
    other = pod("q", hash_="abc123", mirror="abc123")
    static.put(other)
    static.drop("uid-q")
    assert static.list_cgroup_uids() == {"uid-p", "abc123"}
    static.put(pod("p"))
    assert static.list_cgroup_uids() == {"uid-p"}


def test_it_is_told_whether_the_kubelet_shows_others_than_before():
    static = StaticPods()
    assert [static.confirm({("d", "p")}), static.confirm([("d", "p")]), static.confirm(())] == [True, False, True]
