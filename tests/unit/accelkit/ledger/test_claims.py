import pytest
from support.requests import build_inventory, build_request

from accelkit.ledger.claims import claim, is_blocked, reserve
from accelkit.ledger.holding import ShareStage
from accelkit.ledger.ledger import Ledger
from accelkit.model.pod import PodRef
from accelkit.placement.misfit import MisfitError, MisfitReason
from accelkit.placement.policies import Policy

P, Q, R = (PodRef("d", name, name) for name in "pqr")
WANTS = build_request(5)


@pytest.fixture
def ledger():
    made = Ledger(unit_bytes=1)
    for name in "nm":
        made.put_node(name, build_inventory(f"{name}-a", memory=8))
    made.reserve(P, "n", WANTS, Policy.BINPACK)
    return made


def test_claim_blocks_other_pods_before_and_after_release(ledger):
    claim(ledger, Q, "n", WANTS, Policy.BINPACK, gone={P.uid})
    assert is_blocked(ledger, ledger.find_holding(Q.uid), WANTS, Policy.BINPACK)
    for _ in range(2):
        with pytest.raises(MisfitError):
            ledger.reserve(R, "n", WANTS, Policy.BINPACK)
        ledger.release(P.uid)
    assert not is_blocked(ledger, ledger.find_holding(Q.uid), WANTS, Policy.BINPACK)
    reserve(ledger, Q, "n", WANTS, Policy.BINPACK)
    assert ledger.find_holding(Q.uid).stage is ShareStage.RESERVED
    assert ledger.find_node("n").uses["n-a"].used_bytes == 5


def test_impossible_claim_is_rejected(ledger):
    with pytest.raises(MisfitError):
        claim(ledger, Q, "n", WANTS, Policy.BINPACK, gone={R.uid})
    with pytest.raises(MisfitError) as raised:
        claim(ledger, Q, "unknown", WANTS, Policy.BINPACK, gone=())
    assert raised.value.misfit.reason is MisfitReason.UNKNOWN_NODE
    assert ledger.find_holding(Q.uid) is None


def test_claim_is_kept_after_misfit_and_moved_by_reservation_on_other_node(ledger):
    claim(ledger, Q, "n", WANTS, Policy.BINPACK, gone={P.uid})
    with pytest.raises(MisfitError):
        reserve(ledger, Q, "n", WANTS, Policy.BINPACK)
    assert ledger.find_holding(Q.uid).stage is ShareStage.CLAIMED
    reserve(ledger, Q, "m", WANTS, Policy.BINPACK)
    assert (ledger.find_holding(Q.uid).node, ledger.find_node("n").uses["n-a"].used_bytes) == ("m", 5)


def test_reserved_holding_is_not_treated_as_claim(ledger):
    assert not is_blocked(ledger, ledger.find_holding(P.uid), WANTS, Policy.BINPACK)
    reserve(ledger, P, "n", WANTS, Policy.BINPACK)
    assert ledger.find_holding(P.uid).stage is ShareStage.RESERVED


def test_restored_holding_is_kept_beside_newer_reservation(ledger):
    before = ledger.find_holding(P.uid)
    ledger.release(P.uid)
    ledger.reserve(Q, "n", WANTS, Policy.BINPACK)
    ledger.restore(before)
    assert ledger.find_holding(P.uid) == before
    assert ledger.find_node("n").uses["n-a"].used_bytes == 10
