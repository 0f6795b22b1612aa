"""Which pods use which digest of which cache."""

import pytest
from agent_worlds import A, B, desired, folder, link, pod, stored, world

from accelkit.cacheagent.planning.usage import find_usage, owns_claim
from accelkit.gkm import names

LONG = "x" * 250


@pytest.mark.parametrize(
    ("claim", "owned"),
    [
        ("add", True),
        (f"add-{'a' * 12}", True),
        (f"add-{'A' * 12}", False),
        ("add-0123", False),
        ("add-cache-of-mine", False),
        ("adder", False),
        ("", False),
    ],
)
def test_cache_owns_its_claim_and_pinned_claims(claim, owned):
    assert owns_claim(desired(), claim) is owned


def test_cluster_cache_is_used_only_in_its_namespaces():
    known = world(
        desired(key="/add", namespaces=("one", "two")),
        stored={folder(A): stored()},
        links={link("/add"): folder(A)},
        pods=(pod("p", namespace="one"), pod("q", namespace="two"), pod("r", namespace="three")),
    )
    assert [str(each) for each in find_usage(known)["/add"].pods[folder(A)]] == ["one/p", "two/q"]
    assert find_usage(world(desired(), pods=(pod("p", "data"),))) == {}


def test_pod_with_withdrawn_link_uses_only_earlier_digest():
    given = {"stored": {folder(A): stored()}, "links": {link(): "withdrawn"}, "pods": (pod("p"),)}
    assert not find_usage(world(desired(), **given))["team/add"].pods
    uses = {"uid-p": {"team/add": frozenset({folder(B)})}}
    assert list(find_usage(world(desired(), **given, uses=uses))["team/add"].pods) == [folder(B)]


def test_pod_that_mounts_cache_twice_or_by_long_name_counts_once():
    known = world(
        desired(),
        stored={folder(A): stored()},
        links={link(): folder(A)},
        pods=(pod("p", "add", f"add-{'a' * 12}", starting=True),),
    )
    usage = find_usage(known)["team/add"]
    assert [len(pods) for pods in usage.pods.values()] == [1]
    assert len(usage.starting) == 1
    key = f"team/{LONG}"
    claim = names.name_pinned_claim(key, A)
    assert owns_claim(desired(key=key), claim)
    known = world(desired(key=key), stored={folder(A): stored()}, pods=(pod("p", claim),))
    assert list(find_usage(known)[key].pods) == [folder(A)]


def test_pinned_claim_does_not_use_digest_of_another_cache():
    other = desired(B, key="other/secret")
    near = "sha256:" + "b" * 12 + "c" * 52
    given = {"stored": {folder(each): stored() for each in (A, B, near)}, "pods": (pod("p", f"add-{'b' * 12}"),)}
    for known in (world(desired(), other, **given), world(desired(former_digests=(near,)), other, **given)):
        assert list(find_usage(known)["team/add"].pods) == [folder(near)]
    former = desired(A, key="other/secret", former_digests=(B, near))
    assert not find_usage(world(desired(), former, **given))


@pytest.mark.parametrize("former", [(), (B,)])
@pytest.mark.parametrize("mount_path", ["", "/elsewhere"])
def test_pinned_claim_of_former_digest_matches_any_mount_path(mount_path, former):
    of_former = names.name_folder(B, mount_path)
    known = world(desired(former_digests=former), stored={of_former: stored()}, pods=(pod("p", f"add-{'b' * 12}"),))
    assert list(find_usage(known)["team/add"].pods) == [of_former]
