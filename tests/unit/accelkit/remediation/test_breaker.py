"""How many nodes may be under remediation at once, and when a person has to look."""

import pytest
from remediation_cluster import SimCluster

from accelkit.remediation.deciding.breaker import Breaker
from accelkit.remediation.deciding.settings import Mode, RemediationSettings


@pytest.mark.parametrize(
    ("share", "nodes", "allowed"), [(0.2, 0, 0), (0.2, 1, 1), (0.2, 9, 1), (0.2, 10, 2), (0.2, 15, 3), (0, 50, 0)]
)
def test_max_unavailable_limits_share_of_nodes_under_remediation(share, nodes, allowed):
    assert RemediationSettings(max_unavailable=share).count_allowed(nodes) == allowed


async def test_next_node_is_remediated_after_another_node_is_repaired():
    cluster = SimCluster([1] * 10, RemediationSettings(mode=Mode.ON, trip_share=1.0))
    for place in range(5):
        cluster.fail(f"n{place}", "GPU-0")
    await cluster.run_passes(5)
    assert cluster.under == 2
    cluster.mend("n0", "GPU-0")
    await cluster.run_passes(4, after=700)
    assert [each.name for each in cluster.summarise() if each.active] == ["n1", "n2"]


def test_breaker_opens_when_share_of_nodes_fails_in_window_and_remains_open():
    breaker = Breaker(0.5, 300)
    assert not breaker.observe({"a", "b"}, 4, 0)
    assert breaker.observe({"a", "b", "c"}, 4, 10)
    assert not breaker.observe(set(), 4, 9999)
    assert breaker.open
    breaker.close()
    assert not breaker.observe({"a"}, 4, 10_000)
    assert not breaker.open


def test_breaker_remains_closed_when_nodes_fail_slowly():
    breaker = Breaker(0.5, 300)
    failing = set()
    for place in range(4):
        failing.add(str(place))
        assert not breaker.observe(set(failing), 4, place * 200)


def test_breaker_remains_closed_when_single_node_fails():
    assert not Breaker(0.5, 300).observe({"a"}, 1, 0)


async def test_open_breaker_blocks_remediation_but_restores_healthy_nodes():
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


async def test_new_replica_keeps_breaker_open_until_record_is_deleted():
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


async def test_breaker_can_open_again_after_manual_close():
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


async def test_metrics_distinguish_queued_node_from_open_breaker():
    cluster = SimCluster([1, 1], RemediationSettings(mode=Mode.ON, max_unavailable=0.5, trip_share=1.0))
    for name in ("n0", "n1"):
        cluster.fail(name, "GPU-0")
    await cluster.run_pass()
    await cluster.run_pass()
    assert not cluster.controller.breaker.open
    shown = cluster.metrics.render().decode()
    assert 'accelkit_remediation_held_nodes{reason="LimitReached"} 1.0' in shown
    assert "Breaker" not in shown
