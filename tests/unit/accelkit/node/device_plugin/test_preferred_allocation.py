from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import replace

import pytest
from device_names import unit
from hypothesis import given
from hypothesis import strategies as st

from accelkit.errors import DevicePluginError
from accelkit.model.assignment import Assignment, Share
from accelkit.node.assigned_pod import AssignedPod
from accelkit.node.device_plugin.preferred_allocation import PreferredAllocation, check_exclusive
from accelkit.node.devices import DeviceIds

IDS = DeviceIds("abc")
ALL = [unit(card, number) for card in "abc" for number in range(8)]


@pytest.fixture
def allocations():
    return PreferredAllocation(whole=False, ids=IDS, unit_bytes=1)


def pod(name, order=0, **containers):
    """A pod whose containers hold shares as `c="aaaa"` (four units of a) or `c="aabb"`."""
    shares = {
        container: tuple(Share(card, count) for card, count in Counter(text).items())
        for container, text in containers.items()
    }
    return AssignedPod(f"uid-{name}", "d", name, (order, "", name), tuple(containers), Assignment(shares))


def offer(allocations, pods, size, *, held=None, available=ALL, taken=(), avoid=()):
    return allocations.prefer(pods, held or {}, available=available, taken=taken, size=size, avoid=avoid)


def prefer(*args, **more):
    return IDS.count_by_card(offer(*args, **more))


def test_the_assigned_card_is_offered(allocations):
    assert prefer(allocations, [pod("p", c="bbbb")], 4) == {"b": 4}


def test_card_of_first_admitted_pod_is_offered(allocations):
    pods = [pod("late", 2, c="aaaa"), pod("early", 1, c="cccc")]
    assert prefer(allocations, pods, 4) == {"c": 4}


def test_cards_are_offered_in_allocation_order_of_containers(allocations):
    pods = [pod("p", i="bb", c="cc")]
    assert prefer(allocations, pods, 2) == {"b": 2}
    allocations.record(pods, {}, [unit("b", 0), unit("b", 1)])
    assert prefer(allocations, pods, 2) == {"c": 2}


def test_container_split_over_cards_is_offered_all_its_cards(allocations):
    assert prefer(allocations, [pod("p", c="aabb")], 4) == {"a": 2, "b": 2}


def test_required_devices_are_included_in_offer(allocations):
    chosen = offer(allocations, [pod("p", c="bbbb")], 4, taken=[unit("b", 7), unit("b", 5)])
    assert chosen[:2] == [unit("b", 7), unit("b", 5)]
    assert IDS.count_by_card(chosen) == {"b": 4}


def test_offer_is_empty_if_more_devices_are_required_than_requested(allocations):
    assert offer(allocations, [], 1, taken=["a::0", "a::1"]) == []
    assert offer(PreferredAllocation(whole=True), [], 1, available=["a", "b"], taken=["a", "b"]) == []


def test_a_container_whose_card_is_unavailable_is_skipped(allocations):
    pods = [pod("p", 1, c="aaaa"), pod("q", 2, c="bbbb")]
    assert prefer(allocations, pods, 4, taken=[unit("b", 0)]) == {"b": 4}
    assert prefer(allocations, pods, 4, available=ALL[6:]) == {"b": 4}


def test_units_for_unassigned_pod_are_offered_on_fullest_sufficient_card(allocations):
    available = [unit("a", 0), unit("a", 1), unit("a", 2), unit("b", 0), unit("b", 1), unit("c", 0)]
    assert prefer(allocations, [], 2, available=available) == {"b": 2}
    assert prefer(allocations, [], 4, available=available) == {}
    assert prefer(allocations, [], 2, available=available, taken=[unit("a", 7)]) == {"a": 2}


def test_units_for_unassigned_pod_are_not_offered_on_cards_held_whole(allocations):
    available = [unit("a", 0), unit("a", 1), unit("b", 0), unit("b", 1), unit("b", 2)]
    assert prefer(allocations, [], 2, available=available, avoid=["a"]) == {"b": 2}
    assert prefer(allocations, [], 2, available=available, avoid=["a", "b"]) == {}
    assert prefer(allocations, [pod("p", c="aa")], 2, available=available, avoid=["a"]) == {"a": 2}


def test_whole_cards_for_unassigned_pod_are_offered_if_no_pod_shares_them():
    allocations = PreferredAllocation(whole=True, ids=IDS)
    assert offer(allocations, [], 2, available=["c", "a", "b"], avoid=["a"]) == ["b", "c"]
    assert offer(allocations, [], 2, available=["a", "b"], avoid=["a"], taken=["d"]) == ["d", "b"]
    assert offer(allocations, [], 2, available=["a", "b"], avoid=["a"]) == []


def test_container_is_expected_until_its_devices_are_allocated(allocations):
    pods = [pod("p", c="aa")]
    assert allocations.expects(pods, {}, 2)
    assert not allocations.expects(pods, {}, 3)
    assert not allocations.expects(pods, {("uid-p", "c"): Counter(a=2)}, 2)
    allocations.record(pods, {}, [unit("a", 0), unit("a", 1)])
    assert not allocations.expects(pods, {}, 2)


def test_allocation_is_recorded_for_container_assigned_to_its_cards(allocations):
    pods = [pod("p", 1, c="aaaa"), pod("q", 2, c="bbbb")]
    assert allocations.record(pods, {}, [unit("b", 0), unit("b", 1), unit("b", 2), unit("b", 3)]) == ("uid-q", "c")


def test_swapped_allocations_of_equal_size_are_both_accepted(allocations):
    pods = [pod("p", 1, c="aa"), pod("q", 2, c="bb")]
    assert allocations.record(pods, {}, [unit("c", 0), unit("c", 1)]) == ("uid-p", "c")
    assert allocations.record(pods, {}, [unit("a", 0), unit("a", 1)]) == ("uid-q", "c")
    assert allocations.record(pods, {}, [unit("b", 0), unit("b", 1)]) is None


def test_devices_of_several_cards_are_refused_for_container_of_one_card(allocations):
    with pytest.raises(DevicePluginError, match=r"several cards \(a, b\)"):
        allocations.record([pod("p", c="aaaa")], {}, [unit("a", 0), unit("a", 1), unit("b", 0), unit("b", 1)])
    assert prefer(allocations, [pod("p", c="aaaa")], 4) == {"a": 4}


def test_split_with_other_amounts_than_assigned_is_refused(allocations):
    with pytest.raises(DevicePluginError, match="several cards"):
        allocations.record([pod("p", c="aabb")], {}, [unit("a", 0), unit("a", 1), unit("a", 2), unit("b", 0)])
    assert allocations.record([pod("p", c="aabb")], {}, [unit("b", 0), unit("b", 1), unit("c", 0), unit("c", 1)]) == (
        "uid-p",
        "c",
    )


def test_held_devices_are_not_pending_after_restart(allocations):
    pods = [pod("p", 1, c="aa"), pod("q", 2, c="bb")]
    assert prefer(allocations, pods, 2, held={("uid-p", "c"): Counter(a=2)}) == {"b": 2}


def test_pending_allocation_counts_until_kubelet_reports_all_its_devices(allocations):
    pods = [pod("p", c="aa")]
    allocations.record(pods, {}, [unit("b", 0), unit("b", 1)])
    allocations.settle(pods, frozenset(), {unit("b", 0)})
    assert allocations.list_pending_cards() == {"b": "uid-p"}
    allocations.settle(pods, frozenset(), {unit("b", 0), unit("b", 1)})
    assert allocations.list_pending_cards() == {}


class Shown(AbstractSet):
    """The held device IDs; counts iterations and lookups."""

    def __init__(self, device_ids):
        self.device_ids, self.walks, self.asked = device_ids, 0, 0

    def __contains__(self, device_id):
        self.asked += 1
        return device_id in self.device_ids

    def __iter__(self):
        self.walks += 1
        return iter(self.device_ids)

    def __len__(self):
        return len(self.device_ids)


def test_settle_looks_up_only_devices_of_pending_allocations(allocations):
    pods = [pod(f"p{number}", number, c="b") for number in range(8)]
    for number in range(8):
        allocations.record(pods, {}, [unit("b", number)])
    shown = Shown({unit("a", number) for number in range(8)})
    allocations.settle(pods, frozenset(), shown)
    assert (shown.walks, shown.asked) == (0, 8)


def test_pending_allocation_of_deleted_or_admitted_pod_is_discarded(allocations):
    pods = [pod("p", c="aa")]
    for left in ([], [replace(pods[0], admitted=True)]):
        allocations.record(pods, {}, [unit("a", 0), unit("a", 1)])
        allocations.settle(left, frozenset(), frozenset())
        assert allocations.list_pending_cards() == {}


def test_pending_allocation_of_unknown_pod_is_discarded_after_one_minute():
    now = [0.0]
    allocations = PreferredAllocation(whole=False, ids=IDS, clock=lambda: now[0])
    allocations.record([], {}, [unit("a", 0)])
    allocations.settle([], frozenset(), frozenset())
    assert allocations.list_pending_cards() == {"a": None}
    now[0] = 61.0
    allocations.settle([], frozenset(), frozenset())
    assert allocations.list_pending_cards() == {}


def test_pending_allocation_without_assignment_counts_while_candidate_waits():
    allocations = PreferredAllocation(whole=True, ids=IDS)
    allocations.record([], {}, ["a"], unassigned=frozenset({"uid-past", "uid-other"}))
    for unassigned, pending in (({"uid-past"}, {"a": None}), ({"uid-later"}, {})):
        allocations.settle([], unassigned, frozenset())
        assert allocations.list_pending_cards() == pending


def test_pending_allocation_of_deleted_pod_does_not_block_card():
    allocations = PreferredAllocation(whole=True, ids=IDS)
    assert allocations.record([], {}, ["a"], unassigned=frozenset()) is None
    allocations.settle([], {"uid-later"}, frozenset())
    assert allocations.list_pending_cards() == {}


def test_pod_displaced_from_its_card_is_offered_card_of_displacing_pod(allocations):
    pods = [pod("first", 1, c="aa"), pod("second", 2, c="bb")]
    held = {("uid-second", "c"): Counter(a=2)}
    allocations.record(pods, {}, [unit("a", 0), unit("a", 1)])
    assert prefer(allocations, pods, 2) == {"b": 2}
    allocations.settle(pods, frozenset(), {unit("a", 0), unit("a", 1)})
    assert prefer(allocations, pods, 2, held=held) == {"b": 2}


def test_admitted_pod_is_skipped(allocations):
    pods = [replace(pod("old", 1, i="aa", c="aa"), admitted=True), pod("new", 2, c="bb")]
    assert prefer(allocations, pods, 2) == {"b": 2}


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_pods_of_equal_size_fill_cards_as_assigned_in_any_order(cards, random):
    allocations = PreferredAllocation(whole=False, ids=IDS, unit_bytes=1)
    pods = [pod(f"p{number}", number, c=card) for number, card in enumerate(cards)]
    held, free = {}, set(ALL)
    for each in random.sample(pods, len(pods)):
        (chosen,) = offer(allocations, pods, 1, held=held, available=sorted(free))
        allocations.record(pods, held, [chosen])
        if random.random() < 0.7:
            held[each.uid, "c"] = IDS.count_by_card([chosen])
            allocations.settle(pods, frozenset(), {chosen})
        free.remove(chosen)
    assert IDS.count_by_card(set(ALL) - free) == Counter(cards)


def test_whole_card_offer_ignores_memory_containers():
    share = Share("b", 16, whole=True)
    whole = AssignedPod("u", "d", "p", (0, "", ""), ("m", "c"), Assignment({"m": (Share("a", 1),), "c": (share,)}))
    allocations = PreferredAllocation(whole=True, ids=IDS)
    assert offer(allocations, [whole], 1, available=["a", "b", "c"]) == ["b"]
    assert allocations.record([whole], {}, ["b"]) == ("u", "c")


def test_whole_cards_without_assigned_pod_are_recorded_for_no_container():
    assert PreferredAllocation(whole=True, ids=IDS).record([], {}, ["a", "b"]) is None


@pytest.mark.parametrize(
    ("whole", "holder", "sentence"),
    [
        (True, "d/p", "d/p shares its memory"),
        (False, "d/p", "d/p holds it whole"),
        (False, None, "another pod holds it whole"),
    ],
)
def test_a_card_held_through_the_other_resource_is_refused(whole, holder, sentence):
    with pytest.raises(DevicePluginError, match=f"card a would be over capacity: {sentence}"):
        check_exclusive(["b", "a"], {"a": holder}, whole=whole)
    check_exclusive(["b"], {"a": holder}, whole=whole)


@given(
    st.lists(st.sampled_from(["aa", "bb", "aabb", "cccc", "c"]), max_size=4),
    st.sets(st.sampled_from(ALL)),
    st.sampled_from([1, 2, 4]),
)
def test_offer_is_empty_or_has_requested_number_of_available_devices(shapes, available, size):
    allocations = PreferredAllocation(whole=False, ids=IDS, unit_bytes=1)
    pods = [pod(f"p{number}", number, c=shape) for number, shape in enumerate(shapes)]
    chosen = offer(allocations, pods, size, available=sorted(available))
    assert len(chosen) in (0, size)
    assert set(chosen) <= available
    assert len(set(chosen)) == len(chosen)


def sized(name, amount, units):
    assignment = Assignment({"c": (Share("a", amount),)})
    return AssignedPod(
        f"uid-{name}", "d", name, ("", name), ("c",), assignment, {"c": units}, written_bytes={"c": amount}
    )


def test_a_pod_assigned_in_another_unit_is_refused_by_name(allocations):
    with pytest.raises(
        DevicePluginError, match="pod d/p was assigned units of 4 B, but this node now has units of 1 B"
    ):
        allocations.check_unit([sized("p", 8, 2)], {}, 2)


def test_check_unit_accepts_size_if_one_waiting_container_has_present_unit(allocations):
    allocations.check_unit([sized("old", 8, 2), sized("new", 2, 2)], {}, 2)


def test_check_unit_ignores_containers_that_hold_their_devices(allocations):
    pods = [sized("held", 8, 2), sized("other", 8, 4)]
    allocations.check_unit(pods, {("uid-held", "c"): Counter(a=2)}, 2)
    PreferredAllocation(whole=True, ids=IDS).check_unit(pods, {}, 2)


def test_find_other_unit_returns_unit_of_assignment_if_different():
    assert [sized("p", 8, 2).find_other_unit("c", unit) for unit in (1, 4)] == [4, None]
    assert pod("p", c="aaaa").find_other_unit("c", 4) is None


def test_init_container_is_not_expected_after_app_container_is_reported(allocations):
    pods = [pod("p", 1, i="aa", c="aaaa"), pod("q", 2, i="bb", c="bbbb")]
    passed_on = [unit("a", 0), unit("a", 1)]
    allocations.record(pods, {}, passed_on)
    main = offer(allocations, pods, 4, taken=passed_on)
    allocations.record(pods, {}, main)
    # The kubelet lists app containers, not init containers that end; the pod's status is not known yet.
    held = {("uid-p", "c"): Counter(a=4)}
    allocations.settle(pods, frozenset(), set(main))
    assert prefer(allocations, pods, 2, held=held) == {"b": 2}


def serve(allocations, pods, size, *, taken=()):
    """Offer devices and allocate them, as a kubelet that accepts the offer; return them."""
    chosen = offer(allocations, pods, size, taken=taken)
    allocations.record(pods, {}, chosen)
    return chosen


def test_request_is_not_matched_to_app_container_before_its_init_container(allocations):
    """Its app container must include the devices of its init container, so no other pod may take that card."""
    pods = [pod("p", 1, i="aa", c="aaaa"), pod("q", 2, c="bbbb")]
    assert IDS.count_by_card(serve(allocations, pods, 4)) == {"b": 4}


def test_pod_with_started_allocation_precedes_other_pods(allocations):
    pods = [pod("p", 1, c="aaaa"), pod("q", 2, c="bbb", d="cccc")]
    serve(allocations, pods, 3)
    assert IDS.count_by_card(serve(allocations, pods, 4)) == {"c": 4}
    assert IDS.count_by_card(serve(allocations, pods, 4)) == {"a": 4}


def test_pod_with_some_reported_containers_precedes_other_pods(allocations):
    pods = [pod("p", 1, c="aaaa"), pod("q", 2, c="bbb", d="cccc")]
    assert prefer(allocations, pods, 4, held={("uid-q", "c"): Counter(b=3)}) == {"c": 4}


def test_container_displaced_from_its_card_is_offered_card_left_free(allocations):
    pods = [pod("p", 1, c="aaaa"), pod("q", 2, c="bbbb"), pod("r", 3, c="cccc")]
    allocations.record(pods, {}, [unit("b", number) for number in range(4)])
    held = {("uid-p", "c"): Counter(b=4)}
    allocations.settle(pods, frozenset(), {unit("b", number) for number in range(4)})
    assert prefer(allocations, pods, 4, held=held) == {"a": 4}


def test_init_container_displaced_by_another_pod_is_offered_card_of_that_pod(allocations):
    pods = [pod("p", 1, i="aa", c="aaaa"), pod("q", 2, i="bb", c="bbbb")]
    # The kubelet served q first, and chose the devices of p.
    assert prefer(allocations, pods, 2, held={("uid-q", "c"): Counter(a=4)}) == {"b": 2}
