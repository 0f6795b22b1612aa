import pytest

from accelkit.node.reconciliation.refusals import Refusals


def test_refusal_of_deleted_pod_is_discarded():
    refusals = Refusals(lambda: 0.0)
    assert [refusals.note(uid, "forbidden") for uid in "aba"] == [True, True, False]
    refusals.keep({"b"})
    assert refusals.list_waiting() == {"b"}
    assert refusals.note("a", "forbidden")


@pytest.mark.parametrize("reason", ["unanswered", "server_error", "throttled"])
def test_a_pod_waits_a_short_time_if_the_api_server_was_unreachable(reason):
    now = 0.0
    refusals = Refusals(lambda: now)
    for _ in range(10):
        refusals.note("a", reason)
        assert (refusals.list_waiting(), refusals.list_refused()) == ({"a"}, frozenset())
        now += 5
        assert refusals.list_waiting() == frozenset()
    refusals.note("a", "forbidden")
    now += 14
    assert refusals.list_waiting() == refusals.list_refused() == {"a"}
