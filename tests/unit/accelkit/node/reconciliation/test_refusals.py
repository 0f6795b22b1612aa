from __future__ import annotations

from accelkit.node.reconciliation.refusals import Refusals


def test_a_pod_that_is_gone_is_forgotten():
    refusals = Refusals(lambda: 0.0)
    assert [refusals.note(uid, "forbidden") for uid in "aba"] == [True, True, False]
    refusals.keep({"b"})
    assert refusals.list_waiting() == {"b"}
    assert refusals.note("a", "forbidden")
