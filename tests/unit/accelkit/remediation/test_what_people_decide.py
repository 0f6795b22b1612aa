"""What people and other programs decide about a node under remediation stays."""

from remediation_cluster import DRAIN, RESETTING, SimCluster, make_failed, run_until

from accelkit.model.keys import CORDON_KEY, REMEDIATION_ANNOTATION, UNHEALTHY_TAINT
from accelkit.remediation.deciding.actions import WriteCondition
from accelkit.remediation.deciding.record import RemediationStep
from accelkit.remediation.deciding.views import JobState


async def take_cordon_away():
    """Return a cluster and its node whose failed card was cordoned, until a person took the cordon away."""
    cluster = make_failed()
    node = cluster.nodes["n0"]
    await cluster.run_pass()
    del node.annotations[CORDON_KEY]
    node.version += 1
    return cluster, node


async def test_cordon_removed_by_administrator_is_not_restored_until_new_fault():
    cluster, node = await take_cordon_away()
    await cluster.run_passes(5)
    assert CORDON_KEY not in node.annotations
    assert (node.taints, node.conditions) == ([], [{"type": "Ready", "status": "True"}])
    cluster.fail("n0", "GPU-0", fault="xid 48 at 1.0")
    await cluster.run_pass()
    assert node.annotations[CORDON_KEY] == "GPU-0"


async def test_a_dismissed_fault_is_discarded_once_the_card_is_healthy():
    cluster, node = await take_cordon_away()
    await cluster.run_pass()
    cluster.lose_sight("n0", "GPU-0")
    await cluster.run_pass()
    assert REMEDIATION_ANNOTATION in node.annotations
    cluster.mend("n0", "GPU-0")
    await cluster.run_pass()
    assert node.annotations == {}


async def test_taint_removed_by_administrator_is_not_restored():
    cluster = make_failed()
    node = cluster.nodes["n0"]
    await cluster.run_pass()
    node.taints = []
    node.version += 1
    await cluster.run_passes(5)
    assert node.taints == []
    assert node.annotations[CORDON_KEY] == "GPU-0"


async def test_foreign_cordon_taint_and_condition_are_preserved():
    cluster = SimCluster([1, 1])
    node = cluster.nodes["n0"]
    node.annotations[CORDON_KEY] = "GPU-0"
    node.taints = [{"key": UNHEALTHY_TAINT, "value": "theirs", "effect": "NoSchedule"}]
    node.conditions.append({"type": "AcceleratorHealthy", "status": "True", "reason": "NPD", "message": "fine"})
    before = node.state
    cluster.fail("n0", "GPU-0", fault=DRAIN)
    await run_until(cluster, RemediationStep.REPAIRING)
    cluster.mend("n0", "GPU-0")
    await cluster.run_passes(3, after=601)
    assert node.state == before
    assert not cluster.list_done(WriteCondition)


async def test_unprocessed_mended_annotation_is_removed_after_repair():
    cluster = SimCluster([1, 1], RESETTING)
    before = cluster.nodes["n0"].state
    cluster.fail("n0", "GPU-0", fault=DRAIN)
    await cluster.run_passes(6)
    cluster.jobs = dict.fromkeys(cluster.jobs, JobState.SUCCEEDED)
    await cluster.run_pass()
    cluster.mend("n0", "GPU-0")
    await cluster.run_passes(3, after=601)
    assert cluster.nodes["n0"].state == before


async def test_taint_and_condition_overwritten_by_other_controller_are_preserved():
    cluster = make_failed()
    node = cluster.nodes["n0"]
    await cluster.run_pass()
    theirs = [{"key": UNHEALTHY_TAINT, "value": "keep-out", "effect": "NoSchedule"}]
    node.taints = list(theirs)
    node.conditions[-1] = {"type": "AcceleratorHealthy", "status": "False", "reason": "NPD", "message": "broken"}
    node.version += 1
    conditions = list(node.conditions)
    await run_until(cluster, RemediationStep.REPAIRING)
    cluster.mend("n0", "GPU-0")
    await cluster.run_passes(3, after=601)
    assert (node.taints, node.conditions, node.annotations) == (theirs, conditions, {})
