import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelkit.model.assignment import Share
from accelkit.model.request import Kind
from accelkit.placement.charges import Charge, count_charges

INIT, SIDECAR, APP = Kind.INIT, Kind.SIDECAR, Kind.APP
WHOLE = Share("a", 16, 1000, whole=True)


def cost(*steps):
    """What a pod costs card `a`; steps are (kind, bytes) or (kind, share)."""
    order = [(str(number), kind) for number, (kind, _) in enumerate(steps)]
    shares = [amount if isinstance(amount, Share) else Share("a", amount) for _, amount in steps]
    return count_charges(order, {str(number): (share,) for number, share in enumerate(shares)})["a"]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([(INIT, 8), (APP, 4)], 8),
        ([(INIT, 4), (APP, 8)], 8),
        ([(INIT, 8), (APP, 4), (APP, 8)], 12),
        ([(SIDECAR, 4), (INIT, 8), (APP, 4)], 12),
        ([(INIT, 8), (SIDECAR, 4), (APP, 4)], 8),
        ([(INIT, 8), (SIDECAR, 4), (APP, 8)], 12),
        ([(INIT, 4), (INIT, 8), (APP, 2)], 8),
        ([(INIT, 8), (INIT, 4), (APP, 8)], 8),
        ([(APP, 4), (APP, 4)], 8),
        # The whole card and its memory are devices of two resources: none is handed on as the other.
        ([(INIT, WHOLE), (APP, 4)], 20),
        ([(INIT, 4), (APP, WHOLE)], 20),
    ],
)
def test_pod_is_charged_for_distinct_devices_on_each_card(steps, expected):
    assert cost(*steps).memory_bytes == expected


def test_compute_of_init_container_is_reused_like_memory():
    assert cost((INIT, Share("a", 1, 600)), (APP, Share("a", 1, 400)), (APP, Share("a", 1, 400))).compute == 800


def test_reused_whole_card_is_charged_once():
    assert cost((INIT, WHOLE), (APP, WHOLE)) == Charge(16, 1000, whole=True)


def test_container_missing_from_pod_spec_is_charged():
    assert count_charges([("c", INIT)], {"c": (Share("a", 8),), "ghost": (Share("a", 10),)})["a"].memory_bytes == 10
    assert count_charges([], {"ghost": (Share("a", 3),), "other": (Share("a", 4),)})["a"].memory_bytes == 7


class Kubelet:
    """The device manager's bookkeeping for one pod: explicit device IDs, reusable ones taken before fresh ones."""

    def __init__(self):
        self.fresh = {"a": iter(range(10_000)), "b": iter(range(10_000))}
        self.reusable = set()
        self.held = set()

    def allocate(self, card, count, kind, draw):
        pool = draw(st.permutations(sorted(device for device in self.reusable if device[0] == card)))
        taken = set(pool[:count])
        while len(taken) < count:
            taken.add((card, next(self.fresh[card])))
        self.held |= taken
        if kind is INIT:
            self.reusable |= taken
        else:
            self.reusable -= taken


@given(st.data(), st.lists(st.tuples(st.sampled_from(Kind), st.sampled_from("ab"), st.integers(1, 9)), max_size=6))
def test_charge_equals_devices_allocated_by_kubelet(data, steps):
    steps.sort(key=lambda step: step[0] is APP)
    kubelet = Kubelet()
    for kind, card, count in steps:
        kubelet.allocate(card, count, kind, data.draw)
    order = [(str(number), kind) for number, (kind, _, _) in enumerate(steps)]
    shares = {str(number): (Share(card, count),) for number, (_, card, count) in enumerate(steps)}
    found = {card: charge.memory_bytes for card, charge in count_charges(order, shares).items()}
    held = [card for card, _ in kubelet.held]
    assert found == {card: held.count(card) for card in set(held)}
