import pytest

from accelkit.enablement.ownership.evidence import NodeOwner, OwnerState
from accelkit.enablement.ownership.fate import Fate, judge_nodes
from accelkit.enablement.ownership.owners import HeldPart
from accelkit.enablement.ownership.reasons import NEXT_ACTIONS


def owner(holds=HeldPart.CARDS, *, gives=(), state=OwnerState.OWNER, vendor="nvidia"):
    return NodeOwner("o", "The owner", vendor, holds, state, gives, ("a label", *gives), "let it go")


GIVING, CLAIMING, DRIVING = owner(gives=("nvidia.com/gpu: 8",)), owner(), owner(HeldPart.DRIVER)
LEFT = owner(state=OwnerState.LEFT_OVER)


def judge(*owners, shared=False, adopt=False, coexisting=()):
    return judge_nodes({"a": owners}, shared={"a"} if shared else (), adopt=adopt, coexisting=coexisting)["a"]


@pytest.mark.parametrize(
    ("owners", "shared", "adopt", "fate"),
    [
        ((), False, False, Fate.FREE),
        ((LEFT,), False, False, Fate.FREE),
        ((LEFT,), True, True, Fate.FREE),
        ((DRIVING,), False, False, Fate.LEFT_ALONE),
        ((CLAIMING,), False, False, Fate.LEFT_ALONE),
        ((GIVING, LEFT), False, False, Fate.LEFT_ALONE),
        ((DRIVING,), False, True, Fate.ADOPTED),
        ((CLAIMING,), False, True, Fate.ADOPTED),
        # Adoption or not: two that give one card are refused.
        ((GIVING,), False, True, Fate.CONTESTED),
        ((GIVING,), True, True, Fate.CONTESTED),
        ((GIVING,), True, False, Fate.CONTESTED),
        ((CLAIMING,), True, False, Fate.CONTESTED),
        ((CLAIMING,), True, True, Fate.ADOPTED),
        # Who loads the driver of a node that is shared gives no card away.
        ((DRIVING,), True, False, Fate.ADOPTED),
    ],
)
def test_fate_of_node_depends_on_owners_and_settings(owners, shared, adopt, fate):
    found = judge(*owners, shared=shared, adopt=adopt)
    assert found.fate is fate
    assert (found.reason in NEXT_ACTIONS) == bool(owners)
    assert bool(found.next_action) == bool(owners)


def test_node_listed_as_coexisting_is_shared_despite_other_owner():
    assert judge(GIVING, shared=True, coexisting=["a"]).fate is Fate.ADOPTED


def test_judgement_contains_evidence_and_next_action():
    found = judge(GIVING, shared=True)
    assert found.evidence == "The owner holds the cards for vendor nvidia (a label, nvidia.com/gpu: 8)"
    assert found.next_action.endswith("to release the node from its owner, let it go")
    assert found.gives == ("nvidia.com/gpu: 8",)
    assert "left traces" in judge(LEFT).evidence
    assert "its cards, or their driver" in judge(owner(vendor="")).evidence
