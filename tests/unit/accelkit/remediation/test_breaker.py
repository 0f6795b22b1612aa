"""How many nodes may be under remediation at once, and when a person has to look."""

import pytest
from remediation_cluster import SimCluster

from accelkit.remediation.deciding.breaker import Breaker
from accelkit.remediation.deciding.settings import Mode, RemediationSettings


@pytest.mark.parametrize(
    ("share", "nodes", "allowed"), [(0.2, 0, 0), (0.2, 1, 1), (0.2, 9, 1), (0.2, 10, 2), (0.2, 15, 3), (0, 50, 0)]
)
def test_a_share_of_the_nodes_with_cards_may_be_under_remediation(share, nodes, allowed):
    assert RemediationSettings(max_unavailable=share).count_allowed(nodes) == allowed


async def test_no_more_nodes_are_begun_than_allowed_and_the_next_follows_once_one_is_repaired():
    cluster = SimCluster([1] * 10, RemediationSettings(mode=Mode.ON, trip_share=1.0))
    for place in range(5):
        cluster.fail(f"n{place}", "GPU-0")
    await cluster.run_passes(5)
    assert cluster.under == 2
    cluster.mend("n0", "GPU-0")
    await cluster.run_passes(4, after=700)
    assert [each.name for each in cluster.summarise() if each.active] == ["n1", "n2"]


def test_it_opens_where_more_than_the_share_fail_within_the_window_and_stays_open():
    breaker = Breaker(0.5, 300)
    assert not breaker.observe({"a", "b"}, 4, 0)
    assert breaker.observe({"a", "b", "c"}, 4, 10)
    assert not breaker.observe(set(), 4, 9999)
    assert breaker.open
    breaker.close()
    assert not breaker.observe({"a"}, 4, 10_000)
    assert not breaker.open


def test_nodes_that_fail_one_after_the_other_do_not_open_it():
    breaker = Breaker(0.5, 300)
    failing = set()
    for place in range(4):
        failing.add(str(place))
        assert not breaker.observe(set(failing), 4, place * 200)


def test_one_node_alone_says_nothing():
    assert not Breaker(0.5, 300).observe({"a"}, 1, 0)


async def test_where_it_is_open_nothing_begins_and_nothing_is_evicted_but_what_is_healthy_is_given_back():
    cluster = SimCluster([1] * 6, RemediationSettings(mode=Mode.ON, max_unavailable=1.0))
    before = cluster.nodes["n0"].state
    cluster.fail("n0", "GPU-0")
    await cluster.run_pass()
    for place in range(1, 6):
        cluster.bind(f"n{place}", "GPU-0", "pod")
        cluster.fail(f"n{place}", "GPU-0")
    await cluster.run_pass()
    assert cluster.why == "cards of 6 of 6 nodes failed within 300 s"
    cluster.mend("n0", "GPU-0")
    await cluster.run_passes(3, after=700)
    assert cluster.nodes["n0"].state == before
    assert cluster.under == 0
    assert sum(len(each.pods) for each in cluster.nodes.values()) == 5


async def test_another_replica_finds_it_open_and_a_person_closes_it_by_deleting_what_says_so():
    cluster = SimCluster([1] * 6, RemediationSettings(mode=Mode.ON, max_unavailable=1.0))
    cluster.why = "many failed"
    cluster.fail("n0", "GPU-0")
    await cluster.run_pass()
    cluster.start()
    await cluster.run_pass()
    assert cluster.under == 0
    cluster.why = None
    await cluster.run_pass()
    assert cluster.under == 1
    assert cluster.why is None


async def test_it_opens_again_after_a_person_has_closed_it():
    cluster = SimCluster([1] * 6, RemediationSettings(mode=Mode.ON, max_unavailable=0.2))
    for _ in range(2):
        for place in range(6):
            cluster.fail(f"n{place}", "GPU-0")
        await cluster.run_pass()
        assert cluster.why is not None
        cluster.why = None
        for place in range(6):
            cluster.mend(f"n{place}", "GPU-0")
        await cluster.run_pass(after=1000)
        assert not cluster.controller.breaker.open


async def test_a_node_that_waits_for_another_is_told_apart_from_a_breaker_that_is_open():
    cluster = SimCluster([1, 1], RemediationSettings(mode=Mode.ON, max_unavailable=0.5, trip_share=1.0))
    for name in ("n0", "n1"):
        cluster.fail(name, "GPU-0")
    await cluster.run_pass()
    await cluster.run_pass()
    assert not cluster.controller.breaker.open
    shown = cluster.metrics.render().decode()
    assert 'accelkit_remediation_held_nodes{reason="LimitReached"} 1.0' in shown
    assert "Breaker" not in shown
