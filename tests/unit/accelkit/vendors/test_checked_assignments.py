"""What is believed of an assignment that anybody may have written."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.pods import build_container, build_pod

from accelkit.errors import AssignmentError
from accelkit.model.assignment import MOVING, Assignment, Share
from accelkit.model.pod import Pod
from accelkit.vendors.checked_assignments import check_assignment, describe_difference
from accelkit.vendors.dialects import load_dialects
from accelkit.vendors.pod_reading import PodReader

MEMORY, CARDS = "accelkit.io/memory", "accelkit.io/cards"
I915, MAX, MILLICORES = "gpu.intel.com/i915", "gpu.intel.com/memory.max", "gpu.intel.com/millicores"
READER = PodReader(load_dialects(["native", "gas", "gcushare-2025"]))
CAPACITIES = dict.fromkeys("abc", 16)


def pod(*, init=None, **limits):
    def build(asked):
        return [build_container(each, name) for name, each in asked.items()]

    return READER.read(
        msgspec.convert(build_pod("p", *build(limits), initContainers=build(init or {}), nodeName="n"), Pod)
    )


def check(asking, *, capacities=CAPACITIES, unit_bytes=1, compute=None, **written):
    shares = {name.replace("moving", MOVING): given for name, given in written.items()}
    return check_assignment(asking, Assignment(shares), capacities, unit_bytes, compute).containers


def whole(*cards, memory=16):
    return tuple(Share(card, memory, 1000, whole=True) for card in cards)


ONE = pod(c={MEMORY: "1"})
FOUR = pod(c={MEMORY: "4"})


@pytest.mark.parametrize("said", [0, 1, 16, 10**12])
def test_single_share_has_amount_of_limit_regardless_of_annotation(said):
    assert check(FOUR, c=(Share("a", said),)) == {"c": (Share("a", 4),)}
    assert check(FOUR, unit_bytes=3, c=(Share("a", said),)) == {"c": (Share("a", 12),)}


def test_containers_without_request_or_unknown_containers_hold_nothing():
    asking = pod(c={MEMORY: "4"}, plain={"cpu": "1"}, zero={MEMORY: "0"})
    ghosts = {name: (Share("b", 16), *whole("c")) for name in ("plain", "zero", "ghost")}
    assert check(asking, c=(Share("a", 4),), **ghosts) == {"c": (Share("a", 4),)}
    assert check(pod(zero={MEMORY: 0}), **ghosts) == {}


def test_each_requesting_container_needs_assignment_including_init():
    asking = pod(init={"i": {MEMORY: "8"}}, c={MEMORY: "4"})
    given = {"i": (Share("a", 8),), "c": (Share("a", 4),)}
    assert check(asking, **given) == given
    with pytest.raises(AssignmentError, match=r"its assignment contains no accelkit\.io/memory"):
        check(asking, c=(Share("a", 4),))


def test_shares_on_two_cards_that_sum_to_limit_are_accepted():
    assert check(FOUR, unit_bytes=2, c=(Share("a", 2), Share("b", 6))) == {"c": (Share("a", 2), Share("b", 6))}


@pytest.mark.parametrize(
    "given",
    [
        (Share("a", 4), Share("b", 5)),
        (Share("a", 4), Share("b", 2)),
        (Share("a", 3), Share("b", 5)),
        (Share("a", 8), Share("b", 0)),
    ],
)
def test_shares_that_do_not_sum_to_limit_in_whole_units_are_rejected(given):
    with pytest.raises(AssignmentError, match=r"container c was assigned .* on 2 cards, but its limit is 8 B"):
        check(FOUR, unit_bytes=2, c=given)


def test_same_card_twice_in_assignment_is_rejected():
    with pytest.raises(AssignmentError, match="container c was assigned 1 card but requests 2"):
        check(FOUR, c=(Share("a", 2), Share("a", 2)))
    with pytest.raises(AssignmentError, match="container c was assigned 1 card but requests 2"):
        check(pod(c={CARDS: 2}), c=whole("a", "a"))


def test_number_of_whole_cards_must_match_request():
    assert check(pod(c={CARDS: "2"}), c=whole("a", "b", memory=1)) == {"c": whole("a", "b")}
    for wrong in (whole("a"), whole("a", "b", "c")):
        with pytest.raises(AssignmentError, match="but requests 2"):
            check(pod(c={CARDS: "2"}), c=wrong)
    with pytest.raises(AssignmentError, match=r"contains no accelkit\.io/cards"):
        check(pod(c={CARDS: "2"}), c=(Share("a", 16),))
    with pytest.raises(AssignmentError, match=r"contains no accelkit\.io/memory"):
        check(FOUR, c=whole("a"))


@pytest.mark.parametrize("card", ["z", "", "a" * 5000])
def test_assignment_of_card_missing_on_node_is_rejected(card):
    with pytest.raises(AssignmentError, match="which does not exist on its node") as raised:
        check(FOUR, c=(Share(card, 4),))
    assert len(str(raised.value)) < 200


def test_cards_are_accepted_when_cards_of_node_are_unknown():
    assert check(FOUR, capacities=None, c=(Share("z", 9),)) == {"c": (Share("z", 4),)}
    assert check(pod(c={CARDS: 1}), capacities=None, c=whole("z", memory=10**12)) == {"c": whole("z", memory=0)}
    with pytest.raises(AssignmentError, match="which does not exist on its node"):
        check(FOUR, capacities=None, c=(Share("z" * 49, 4),))


def test_compute_is_read_from_assignment_until_compute_is_known():
    given = (Share("a", 4, 250),)
    assert check(FOUR, c=given) == {"c": given}
    for known in ({"c": 700}, {}):
        assert check(FOUR, compute=known, c=given) == {"c": (Share("a", 4, known.get("c", 0)),)}


def test_compute_is_read_from_limits_that_contain_compute():
    gas = pod(c={I915: 2, MAX: "8", MILLICORES: "600"})
    forged = (Share("a", 16, 1000), Share("b", 0, 0))
    counted = {"amounts": ((I915, 1),)}
    assert check(gas, compute={"c": 9}, c=forged) == {"c": tuple(Share(card, 4, 300, **counted) for card in "ab")}
    with pytest.raises(AssignmentError, match="container c was assigned 1 card but requests 2"):
        check(gas, c=(Share("a", 4, 300),))
    slices = pod(c={"enflame.com/shared-gcu": "3"})
    assert check(slices, c=(Share("a", 16, 1000),)) == {"c": (Share("a", 0, 500),)}


def test_assignment_is_rejected_when_limits_are_unreadable():
    with pytest.raises(AssignmentError, match="out of range"):
        check(pod(c={MEMORY: "1e30"}), c=(Share("a", 4),))
    with pytest.raises(AssignmentError, match="more memory than any node can have"):
        check(pod(c={MEMORY: str(2**62)}), unit_bytes=2**30, c=(Share("a", 4),))


@pytest.mark.parametrize(
    ("moving", "believed"),
    [
        (Share("b", 4), True),
        (Share("b", 5), False),
        (Share("z", 1), False),
        (Share("b", 1, 1), False),
        (Share("b", 0, 0, whole=True), False),
    ],
)
def test_moving_shares_are_bounded_by_limits_on_cards_of_node(moving, believed):
    assert (MOVING in check(FOUR, c=(Share("a", 4),), moving=(moving,))) is believed
    assert MOVING not in check(FOUR, capacities=None, c=(Share("a", 4),), moving=(moving,))


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ({"c": (Share("a", 4),)}, ""),
        ({"c": (Share("a", 16),)}, "it assigns 16 B to container c, but the pod's limits allow 4 B"),
        (
            {"c": (Share("a", 4),), "g\x1b[2J": (Share("a", 1),)},
            "it assigns cards to container g\ufffd[2J, which requests none",
        ),
        ({"c": (Share("a", 4, 10),)}, "it assigns 4 B with compute 1 % to container c, but the pod's limits allow 4 B"),
    ],
)
def test_difference_of_assignment_is_described_in_one_sentence(written, sentence):
    assignment = Assignment(written)
    assert describe_difference(assignment, check_assignment(FOUR, assignment, CAPACITIES, 1, {})) == sentence


def test_memory_of_whole_card_is_not_a_difference():
    given = Assignment({"c": whole("a", memory=3)})
    assert describe_difference(given, check_assignment(pod(c={CARDS: 1}), given, CAPACITIES, 1)) == ""


SHARES = st.builds(Share, st.sampled_from("abcz"), st.integers(0, 20), st.integers(0, 1000), st.booleans())
CONTAINERS = st.sampled_from(["c", "d", "i", "ghost", MOVING])


@given(st.dictionaries(CONTAINERS, st.lists(SHARES, max_size=3).map(tuple)), st.sampled_from([1, 3]))
def test_checked_assignment_never_exceeds_limits_of_pod(written, unit_bytes):
    asking = pod(init={"i": {MEMORY: 2}}, c={MEMORY: 4}, d={CARDS: 1})
    try:
        believed = check_assignment(asking, Assignment(written), CAPACITIES, unit_bytes, {}).containers
    except AssignmentError:
        return
    moving = believed.pop(MOVING, ())
    sums = {name: sum(share.memory_bytes for share in shares) for name, shares in believed.items()}
    assert sums == {"i": 2 * unit_bytes, "c": 4 * unit_bytes, "d": 16}
    assert all(share.compute == (1000 if share.whole else 0) for shares in believed.values() for share in shares)
    assert sum(share.memory_bytes for share in moving if not share.whole) <= sum(sums.values())
