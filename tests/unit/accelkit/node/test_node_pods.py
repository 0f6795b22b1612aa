import asyncio

import msgspec
import pytest
from support.pods import build_container, build_pod

from accelkit.errors import ApiError
from accelkit.kube.paths import PODS
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.card import Card
from accelkit.model.inventory import FormerUnit
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.model.pod import Pod
from accelkit.node import pods as module
from accelkit.node.node_cards import NodeCards
from accelkit.node.pods import NodePods
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.pod_reading import PodReader

NODE = NodeCards({"a": Card("a", "v", "m", 16)}, 1)
ASSIGNMENT = Assignment({"c": (Share("a", 4),)})


def pod(name, *, text=None, phase="Running", created="2024-01-01T00:00:00Z", node="n"):
    text = encode_assignment(ASSIGNMENT) if text is None else text
    metadata = {"creationTimestamp": created, "annotations": {ASSIGNMENT_ANNOTATION: text} if text else {}}
    spec = {"nodeName": node, "initContainers": [{"name": "i"}]}
    container = build_container({"accelkit.io/memory": "4"})
    return build_pod(name, container, metadata=metadata, status={"phase": phase}, **spec)


def store(api, *pods):
    """Have the API server list these pods of the node, and another node's."""
    api.objects.clear()
    for each in (*pods, pod("elsewhere", node="m")):
        api.store(PODS, each)


async def read(api, pods, *listed):
    store(api, *listed)
    await pods.refresh()


@pytest.fixture
def pods(api):
    pods = NodePods(api, "n", load_dialect("native"))
    pods.set_cards(NODE)
    return pods


def names(pods):
    return [each.name for each in pods.list_assigned()]


async def test_pods_of_node_are_read_with_their_assignments(api, pods):
    await read(api, pods, pod("p"))
    (found,) = pods.list_assigned()
    assert (found.uid, found.containers, found.assignment) == ("uid-p", ("i", "c"), ASSIGNMENT)
    assert found.order[1:] == ("2024-01-01T00:00:00Z", "p")


@pytest.mark.parametrize("wrong", [pod("p", text=""), pod("p", text="garbage"), pod("p", phase="Failed")])
async def test_ended_pods_and_pods_without_readable_assignment_are_left_out(api, pods, wrong):
    await read(api, pods, wrong, pod("q"))
    assert names(pods) == ["q"]


@pytest.mark.parametrize("unreadable", [False, True])
async def test_a_failed_list_keeps_the_pods_of_the_watch(api, pods, unreadable):
    store(api, pod("p"))
    assert await pods.refresh()
    if unreadable:
        api.documents[PODS] = {"items": [{"metadata": 1}]}
    else:
        api.fail(ApiError("away"))
    assert not await pods.refresh()
    assert names(pods) == ["p"]


async def test_pods_without_assignment_are_listed_until_admission(api, pods):
    taken = pod("taken", text="garbage")
    taken["status"]["startTime"] = "2024-01-01T00:00:00Z"
    await read(
        api, pods, taken, pod("waits", text="garbage"), pod("ended", text="garbage", phase="Failed"), pod("assigned")
    )
    assert pods.list_unassigned() == {"uid-waits"}


@pytest.mark.parametrize(("kind", "changes"), [("DELETED", {}), ("MODIFIED", {"phase": "Succeeded"})])
async def test_deleted_or_ended_pod_is_not_listed(api, pods, kind, changes):
    await read(api, pods, pod("p"), pod("q"))
    pods._event(kind, msgspec.convert(pod("p", **changes), Pod))
    assert names(pods) == ["q"]


async def test_pod_deleted_during_list_is_not_restored(pods, api):
    pods._event("ADDED", msgspec.convert(pod("p"), Pod))
    store(api, pod("p"), pod("q"))
    api.after.append(lambda _: pods._event("DELETED", msgspec.convert(pod("p"), Pod)))
    await pods.refresh()
    assert names(pods) == ["q"]


async def test_units_and_admission_of_pod_are_read(api, pods):
    started = pod("p")
    started["spec"]["containers"][0]["resources"] = {"limits": {"accelkit.io/memory": "4", "cpu": "1"}}
    started["status"]["startTime"] = "2024-01-01T00:00:00Z"
    await read(api, pods, started, pod("q"))
    assert [(each.units, each.admitted) for each in pods.list_assigned()] == [({"c": 4}, True), ({"c": 4}, False)]


def forged(*shares, **containers):
    return encode_assignment(Assignment({"c": shares, **containers}))


async def test_assignment_is_accepted_with_amounts_of_limits(api, pods):
    await read(api, pods, pod("p", text=forged(Share("a", 16), ghost=(Share("a", 9),))))
    (found,) = pods.list_pods()
    assert found.assigned.assignment == ASSIGNMENT
    assert found.rejection == "it assigns cards to container ghost, which requests none"


async def test_assignment_of_unknown_card_is_rejected(api, pods, caplog):
    store(api, pod("p", text=forged(Share("z", 4))))
    for _ in range(3):
        await pods.refresh()
        (found,) = pods.list_pods()
    assert (found.assigned, found.rejection) == (
        None,
        "container c was assigned card z, which does not exist on its node",
    )
    assert len(caplog.records) == 1
    pods.set_cards(NodeCards({"z": Card("z", "v", "m", 16)}, 1))
    assert names(pods) == ["p"]


async def test_assignment_is_not_rejected_before_cards_and_unit_are_known(api, caplog):
    pods = NodePods(api, "n", load_dialect("native"))
    found = pod("p", text=encode_assignment(Assignment({"c": (Share("a", 8),)})))
    found["status"]["startTime"] = "2024-01-01T00:00:00Z"
    store(api, found)
    await pods.refresh()
    assert names(pods) == ["p"]
    assert "rejected" not in caplog.text
    pods.set_cards(NodeCards({"a": Card("a", "v", "m", 16)}, 2))
    assert names(pods) == ["p"]
    assert "rejected" not in caplog.text
    pods.set_cards(NODE)
    assert names(pods) == ["p"]
    message = (
        "the assignment of pod d/p is rejected in part: it assigns 8 B to container c, but the pod's limits allow 4 B"
    )
    assert message in caplog.text


async def test_pods_are_kept_if_list_times_out(api, pods, monkeypatch, caplog):
    await read(api, pods, pod("p"))

    async def wait(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "_REFRESH_SECONDS", 0.01)
    monkeypatch.setattr(api, "get_page", wait)
    async with asyncio.timeout(30):
        await pods.refresh()
    assert names(pods) == ["p"]
    assert "cannot list this node's pods: no response within 0.01 s" in caplog.text


async def test_pod_that_requests_no_cards_has_no_assignment(api, pods):
    plain = pod("p")
    plain["spec"]["containers"][0]["resources"] = {}
    zero = pod("zero")
    zero["spec"]["containers"][0]["resources"]["limits"]["accelkit.io/memory"] = "0"
    await read(api, pods, plain, zero)
    assert (names(pods), pods.list_sharing()) == ([], [])


async def test_first_observed_compute_is_kept_after_new_list(api, pods):
    for compute in (250, 900, 0):
        store(api, pod("p", text=forged(Share("a", 4, compute))))
        await pods.refresh()
        pods._replace([msgspec.convert(pod("p", text=forged(Share("a", 4, compute))), Pod)])
        (found,) = pods.list_assigned()
        assert found.assignment.containers["c"][0].compute == 250


async def test_unit_of_pod_follows_from_its_start_and_former_units_of_node(api, pods):
    old, new, waiting = pod("old"), pod("new"), pod("waiting")
    old["status"]["startTime"], new["status"]["startTime"] = "2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z"
    await read(api, pods, old, new, waiting)
    pods.set_cards(NodeCards(NODE.cards, 2, (FormerUnit(8, 1_767_225_600),)))
    assert {each.name: each.unit_bytes for each in pods.list_sharing()} == {"old": 8, "new": 2, "waiting": 2}
    assert {each.name: each.assignment.containers["c"][0].memory_bytes for each in pods.list_assigned()} == {
        "old": 32,
        "new": 8,
        "waiting": 8,
    }
    # The written amount indicates that the pod was assigned in another unit than it would get.
    assert [each.find_other_unit("c", 2) for each in pods.list_assigned() if each.name == "waiting"] == [1]


async def test_only_reported_mirror_pod_has_cgroup_of_static_pod(api, pods):
    taken = {"kubernetes.io/config.hash": "uid-q", "kubernetes.io/config.mirror": "uid-q"}
    static = {"kubernetes.io/config.hash": "abc", "kubernetes.io/config.mirror": "abc"}
    thief, victim, mirror = pod("p"), pod("q"), pod("m")
    thief["metadata"]["annotations"] |= taken
    mirror["metadata"]["annotations"] |= static
    await read(api, pods, thief, victim, mirror)
    for reported, expected in ((set(), "uid-m"), ({("d", "p"), ("d", "q"), ("d", "m")}, "abc")):
        pods.confirm(reported)
        cgroups = {each.pod.ref.name: each.cgroup_uid for each in pods.list_pods()}
        assert cgroups == {"p": "uid-p", "q": "uid-q", "m": expected}
        assert pods.list_uids() == {"uid-p", "uid-q", "uid-m", expected}


@pytest.mark.parametrize("reads", [(PodReader, "read"), (NodePods, "_check")])
async def test_unreadable_pod_is_left_out_and_logged_once(api, pods, monkeypatch, caplog, reads):
    store(api, pod("bad"), pod("q"))
    read = getattr(*reads)
    monkeypatch.setattr(*reads, lambda self, each: read(self, each) if each.ref.name == "q" else 1 / 0)
    for _ in range(3):
        await pods.refresh()
    assert names(pods) == ["q"]
    assert len(caplog.records) == 1


def versioned(name, version, *, card="a", admitted=False):
    body = pod(name, text=encode_assignment(Assignment({"c": (Share(card, 4),)})))
    body["metadata"]["resourceVersion"] = str(version)
    body["status"] |= {"startTime": "2024-01-01T00:00:00Z"} if admitted else {}
    return body


def receive(pods, kind, body):
    pods._event(kind, msgspec.convert(body, Pod))


def describe(pods):
    return {
        each.name: (each.admitted, [s.card for s in each.assignment.containers["c"]]) for each in pods.list_assigned()
    }


@pytest.fixture
def two_cards(pods):
    pods.set_cards(NodeCards({name: Card(name, "v", "m", 16) for name in "ab"}, 1))
    return pods


async def test_a_list_does_not_overwrite_events_of_the_watch_during_its_request(api, two_cards):
    store(api, versioned("p", 7), versioned("q", 8))
    api.after.append(lambda _: receive(two_cards, "MODIFIED", versioned("p", 9, card="b", admitted=True)))
    assert await two_cards.refresh()
    assert describe(two_cards) == {"p": (True, ["b"]), "q": (False, ["a"])}


async def test_response_to_write_does_not_overwrite_later_watch_event(two_cards):
    receive(two_cards, "ADDED", versioned("p", 7))
    receive(two_cards, "MODIFIED", versioned("p", 10, card="b", admitted=True))
    two_cards.take(msgspec.convert(versioned("p", 9, card="b"), Pod))
    assert describe(two_cards) == {"p": (True, ["b"])}
    two_cards.take(msgspec.convert(versioned("p", 11, card="a", admitted=True), Pod))
    receive(two_cards, "MODIFIED", versioned("p", 10, card="b", admitted=True))
    assert describe(two_cards) == {"p": (True, ["a"])}


@pytest.mark.parametrize("late", ["event", "list"])
async def test_deleted_pod_is_not_restored_by_late_event_or_list(api, pods, late):
    receive(pods, "ADDED", versioned("p", 7))
    store(api, versioned("p", 7))

    def delete(*_):
        receive(pods, "DELETED", versioned("p", 9))

    if late == "list":
        api.after.append(delete)
        await pods.refresh()
    else:
        delete()
        receive(pods, "MODIFIED", versioned("p", 8))
    assert names(pods) == []
    assert pods.list_uids() == set()


async def test_a_new_list_of_the_watch_does_not_overwrite_a_newer_version(two_cards):
    receive(two_cards, "ADDED", versioned("old", 3))
    receive(two_cards, "ADDED", versioned("p", 12, card="b", admitted=True))
    receive(two_cards, "ADDED", versioned("young", 13))
    two_cards.reflector._version = "10"
    two_cards._replace([msgspec.convert(versioned("p", 7), Pod)])
    assert describe(two_cards) == {"p": (True, ["b"]), "young": (False, ["a"])}


async def test_pod_with_undelivered_deletion_is_discarded_by_list(api, pods):
    for name in "pq":
        receive(pods, "ADDED", versioned(name, 1))
    receive(pods, "ADDED", versioned("young", 10**6))
    store(api, versioned("q", 1))
    assert await pods.refresh()
    assert sorted(names(pods)) == ["q", "young"]


async def test_unreadable_pod_in_list_is_not_discarded(api, pods):
    receive(pods, "ADDED", versioned("p", 1))
    api.documents[PODS] = {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"uid": "uid-p"}, "spec": 1}]}
    assert await pods.refresh()
    assert names(pods) == ["p"]


def read_order(pods):
    return [each.name for each in sorted(pods.list_assigned(), key=lambda each: each.order)]


def bound(name, version, *, created="2024-01-01T00:00:00Z"):
    body = pod(name, created=created)
    body["metadata"]["resourceVersion"] = str(version)
    return body


async def test_pods_are_ordered_by_binding(api, pods):
    """The kubelet admits each pod when its watch delivers it, so neither age nor name counts."""
    receive(pods, "ADDED", bound("young-9", 7, created="2024-01-01T00:00:05Z"))
    receive(pods, "ADDED", bound("old-10", 9))
    receive(pods, "MODIFIED", bound("young-9", 30, created="2024-01-01T00:00:05Z"))
    store(api, bound("young-9", 30, created="2024-01-01T00:00:05Z"), bound("old-10", 9), bound("old-1", 8))
    assert await pods.refresh()
    assert read_order(pods) == ["young-9", "old-1", "old-10"]


async def test_pods_are_ordered_by_age_after_kubelet_restart(pods):
    receive(pods, "ADDED", bound("young", 7, created="2024-01-01T00:00:05Z"))
    receive(pods, "ADDED", bound("old", 9))
    assert read_order(pods) == ["young", "old"]
    pods.note_new_kubelet()
    receive(pods, "ADDED", bound("z", 12))
    receive(pods, "ADDED", bound("oldest", 13, created="2023-01-01T00:00:00Z"))
    assert read_order(pods) == ["old", "young", "z", "oldest"]
