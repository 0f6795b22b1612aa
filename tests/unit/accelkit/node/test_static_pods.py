"""UIDs in the names of cgroups: a pod cannot claim the cgroup of another pod with an annotation."""

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


def uid(*pods, reported=("p",)):
    static = StaticPods()
    for each in pods:
        static.put(each)
    static.confirm({("d", name) for name in reported})
    assert static.find_cgroup_uid("uid-p") in static.list_cgroup_uids()
    return static.find_cgroup_uid("uid-p")


STATIC = pod("p", hash_="abc123", mirror="abc123")


def test_reported_mirror_pod_has_uid_of_static_pod():
    assert uid(STATIC) == "abc123"
    assert uid(STATIC, reported=()) == "uid-p"


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
def test_a_pod_that_is_not_a_mirror_pod_has_its_own_uid(annotations):
    assert uid(pod("p", **annotations)) == "uid-p"


def test_uid_claimed_by_two_pods_is_assigned_to_neither():
    assert uid(STATIC, pod("q", hash_="abc123", mirror="abc123"), reported=("p", "q")) == "uid-p"


def test_claim_of_unreported_pod_is_ignored():
    assert uid(STATIC, pod("q", hash_="abc123", mirror="abc123")) == "abc123"


def test_deleted_pod_has_no_claim():
    static = StaticPods([("d", "p"), ("d", "q")])
    static.put(STATIC)
    other = pod("q", hash_="abc123", mirror="abc123")
    static.put(other)
    static.drop("uid-q")
    assert static.list_cgroup_uids() == {"uid-p", "abc123"}
    static.put(pod("p"))
    assert static.list_cgroup_uids() == {"uid-p"}


def test_confirm_returns_whether_the_reported_pods_have_changed():
    static = StaticPods()
    assert [static.confirm({("d", "p")}), static.confirm([("d", "p")]), static.confirm(())] == [True, False, True]
