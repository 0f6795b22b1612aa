"""A node takes no new pod while a corrected assignment has put one of its cards over its capacity.

An agent that has not seen the newest pods corrects an assignment onto a card that the extender has given away since.
The card that the pod left looks free then, but a pod that the kubelet has not taken yet will be given it.
"""

import pytest
from support.clocks import Clock
from support.pods import make_ref
from support.requests import build_inventory, build_request

from accelkit.ledger.freed import FreedNodes
from accelkit.ledger.ledger import CORRECTION_SECONDS, Ledger
from accelkit.ledger.verdicts import ShapeVerdicts
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
from accelkit.model.request import Kind
from accelkit.placement.misfit import MisfitError, MisfitReason
from accelkit.placement.policies import Policy

ORDER = [("c", Kind.APP)]


@pytest.fixture
def clock():
    return Clock(100.0)


@pytest.fixture
def ledger(clock):
    """Node n has two cards of 2, and m one of 2."""
    ledger = Ledger(unit_bytes=1, clock=clock)
    for node, cards in {"n": 2, "m": 1}.items():
        ledger.put_node(node, Inventory(1, tuple(Card(f"{node}{at}", "v", "m", 2) for at in range(cards))))
    return ledger


def confirm(ledger, name, card, memory=1, **more):
    share = Share(card, memory)
    ledger.confirm(make_ref(name), card[0], Assignment({"c": (share,)}), ORDER, **more)


def reserve(ledger, name, memory=1, node="n"):
    return ledger.reserve(make_ref(name), node, build_request(memory), Policy.BINPACK)


def judge(ledger, memory=1):
    return ShapeVerdicts(ledger).judge(build_request(memory), Policy.BINPACK)


def overfill(ledger):
    """Three pods fill n but for one unit of n1; the agent then corrects `moved` onto n0, which is full."""
    confirm(ledger, "one", "n0")
    confirm(ledger, "two", "n0")
    confirm(ledger, "three", "n1")
    confirm(ledger, "moved", "n1")
    confirm(ledger, "moved", "n0")


def test_node_with_overfull_card_is_closed_to_new_pods(ledger):
    overfill(ledger)
    assert ledger.find_node("n").list_card_states()[1].free_bytes == 1
    with pytest.raises(MisfitError) as refused:
        reserve(ledger, "new")
    assert refused.value.misfit.reason is MisfitReason.CORRECTING
    verdict = judge(ledger)
    assert verdict.fits == {"m"}
    assert verdict.reasons[verdict.failing["n"]].reason is MisfitReason.CORRECTING


def test_node_reopens_once_no_card_is_over_capacity(ledger):
    overfill(ledger)
    freed = FreedNodes(ledger)
    freed.find()
    confirm(ledger, "two", "n1")
    assert judge(ledger, 1).fits == {"m"}
    ledger.release("uid-three")
    assert freed.find() == ["n"]
    reserve(ledger, "new")


def test_node_remains_closed_until_last_correction(ledger):
    overfill(ledger)
    confirm(ledger, "three", "n0")
    assert judge(ledger).fits == {"m"}
    confirm(ledger, "one", "n1", labels=("a=b",))
    assert judge(ledger).fits == {"m"}
    confirm(ledger, "two", "n1")
    ledger.release("uid-moved")
    assert judge(ledger).fits == {"n", "m"}


def test_pod_bound_outside_extender_does_not_close_node(ledger):
    for name in ("one", "two", "past"):
        confirm(ledger, name, "n0")
    assert judge(ledger).fits == {"n", "m"}
    confirm(ledger, "past", "n0", labels=("a=b",))
    assert judge(ledger).fits == {"n", "m"}


def test_overfull_card_closes_node_only_for_limited_time(ledger, clock):
    overfill(ledger)
    freed = FreedNodes(ledger)
    freed.find()
    clock.now += CORRECTION_SECONDS - 0.1
    assert judge(ledger).fits == {"m"}
    assert freed.find() == []
    clock.now += 0.1
    assert freed.find() == ["n"]
    assert judge(ledger).fits == {"n", "m"}
    reserve(ledger, "new")


def test_first_list_closes_nodes_with_overfull_card(ledger):
    for name, card in {"one": "n0", "two": "n0", "three": "n0", "four": "m0"}.items():
        confirm(ledger, name, card)
    uids = [f"uid-{name}" for name in ("one", "two", "three", "four")]
    ledger.keep_pods(uids)
    assert judge(ledger).fits == {"m"}
    ledger.release("uid-three")
    assert judge(ledger).fits == {"n", "m"}
    confirm(ledger, "past", "n0")
    ledger.keep_pods([*uids, "uid-past"])
    assert judge(ledger).fits == {"n", "m"}


def test_pods_listed_before_their_node_are_counted(clock):
    ledger = Ledger(unit_bytes=1, clock=clock)
    for name in ("one", "two", "three"):
        confirm(ledger, name, "n0")
    ledger.keep_pods(["uid-one", "uid-two", "uid-three"])
    ledger.put_node("n", build_inventory("n0", "n1", memory=2))
    assert judge(ledger).fits == set()
    ledger.release("uid-two")
    assert judge(ledger).fits == {"n"}


def test_card_assigned_whole_and_shared_is_over_capacity(ledger):
    confirm(ledger, "one", "n0")
    ledger.confirm(make_ref("two"), "n", Assignment({"c": (Share("n1", 0, 0, whole=True),)}), ORDER)
    ledger.confirm(make_ref("two"), "n", Assignment({"c": (Share("n0", 0, 0, whole=True),)}), ORDER)
    assert judge(ledger).fits == {"m"}
