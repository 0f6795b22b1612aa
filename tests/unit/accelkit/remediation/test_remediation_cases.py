"""The way of one failed card, from isolation to what was before, and what keeps it from going on."""

import pytest
from remediation_cluster import DRAIN, RESETTING, SimCluster, find_card, make_failed, make_taint, run_until

from accelkit.model.keys import CORDON_KEY, REMEDIATION_ANNOTATION, UNHEALTHY_TAINT
from accelkit.model.pod import PodRef
from accelkit.model.stage import Outcome, Stage, StageRecord, StageResult
from accelkit.model.stage import write_record as write_stages
from accelkit.remediation.deciding.actions import CreateJob, Evict, NodeEvent, PodEvent
from accelkit.remediation.deciding.record import CardRecord, NodeRecord, RemediationStep, read_record, write_record
from accelkit.remediation.deciding.settings import Mode, RemediationSettings
from accelkit.remediation.deciding.views import JobState, PodWithCard


async def test_failed_card_is_cordoned_tainted_and_reported_as_condition():
    cluster = SimCluster([2, 2])
    cluster.fail("n0", "GPU-1", fault=DRAIN)
    await cluster.run_pass()
    node = cluster.nodes["n0"]
    assert node.annotations[CORDON_KEY] == "GPU-1"
    assert node.taints == [{"key": UNHEALTHY_TAINT, "value": "Xid79", "effect": "NoSchedule"}]
    found = [each for each in node.conditions if each["type"] == "AcceleratorHealthy"]
    assert [(each["status"], each["reason"]) for each in found] == [("False", "Xid79")]
    assert cluster.nodes["n1"].state == SimCluster([2, 2]).nodes["n1"].state


async def test_pods_of_failed_card_are_notified_and_evicted_by_priority():
    cluster = SimCluster([2, 2])
    for name, card, priority in (("high", "GPU-0", 9), ("low", "GPU-0", 1), ("other", "GPU-1", 0)):
        assert cluster.bind("n0", card, name, priority)
    cluster.fail("n0", "GPU-0", fault=DRAIN)
    await cluster.run_passes(6)
    assert {each.pod.name for each in cluster.list_done(PodEvent)} == {"high", "low"}
    assert [each.pod.name for each in cluster.list_done(Evict)] == ["low", "high"]
    assert [each.name for each in cluster.nodes["n0"].pods] == ["other"]


async def test_eviction_is_retried_until_deadline_and_reported_once():
    cluster = SimCluster([1, 1])
    cluster.bind("n0", "GPU-0", "guarded")
    cluster.refused = {PodRef("a", "guarded", "n0-guarded")}
    cluster.fail("n0", "GPU-0", fault=DRAIN)
    await cluster.run_passes(200)
    assert [each.reason for each in cluster.list_done(NodeEvent)] == ["CardIsolated", "DrainLate"]
    assert 80 < len(cluster.list_done(Evict)) <= 90
    cluster.nodes["n0"].pods.clear()
    await cluster.run_pass()
    assert find_card(cluster).step is RemediationStep.REPAIRING


async def test_pods_with_blocking_disruption_budgets_do_not_delay_other_evictions():
    cluster = SimCluster([1, 1])
    names = [f"p{number:02}" for number in range(14)]
    for name in names:
        cluster.bind("n0", "GPU-0", name)
    stuck = set(names[: cluster.settings.evictions])
    cluster.refused = {PodRef("a", name, f"n0-{name}") for name in stuck}
    cluster.fail("n0", "GPU-0", fault=DRAIN)
    await cluster.run_passes(20)
    assert {each.name for each in cluster.nodes["n0"].pods} == stuck


async def test_card_is_reset_by_one_job_after_all_holders_are_known_to_be_gone():
    cluster = SimCluster([1, 1], RESETTING)
    cluster.nodes["n0"].unplaced = (PodWithCard(PodRef("a", "unknown", "u"), stays=True),)
    cluster.fail("n0", "GPU-0", fault=DRAIN)
    await cluster.run_passes(10)
    assert not cluster.jobs
    cluster.nodes["n0"].unplaced = ()
    await cluster.run_passes(5)
    assert len(cluster.jobs) == 1
    cluster.jobs = dict.fromkeys(cluster.jobs, JobState.SUCCEEDED)
    await cluster.run_pass()
    assert cluster.nodes["n0"].annotations["accelkit.io/mended"] == "GPU-0"
    assert len(cluster.list_done(CreateJob)) == 1


async def test_forged_node_record_cannot_claim_job_of_another_node():
    cluster = SimCluster([1, 1], RESETTING)
    cluster.fail("n1", "GPU-0", fault=DRAIN)
    await cluster.run_pass()
    while not (theirs := find_card(cluster, node="n1").job):
        await cluster.run_pass()
    assert not cluster.jobs
    cluster.fail("n0", "GPU-0", fault=DRAIN)
    # The kubelet of n0, which is looked at before n1, writes the name that n1 is about to ask for.
    cluster.nodes["n0"].annotations |= {
        CORDON_KEY: "GPU-0",
        REMEDIATION_ANNOTATION: write_record(
            NodeRecord(
                {"GPU-0": CardRecord(DRAIN, "Xid79", RemediationStep.REPAIRING, cluster.now, cluster.now, job=theirs)}
            )
        ),
    }
    await cluster.run_passes(4)
    made = {action.name: node for node, action in cluster.done if isinstance(action, CreateJob)}
    assert (sorted(made.values()), made[theirs]) == (["n0", "n1"], "n1")


async def test_failed_job_is_reported_and_not_repeated():
    cluster = make_failed(RESETTING)
    await cluster.run_passes(6)
    cluster.jobs = dict.fromkeys(cluster.jobs, JobState.FAILED)
    await cluster.run_passes(10)
    assert [each.reason for each in cluster.list_done(NodeEvent)] == ["CardIsolated", "RepairFailed"]
    assert [each.called for each in cluster.summarise()] == [1, 0]
    assert len(cluster.list_done(CreateJob)) == 1


@pytest.mark.parametrize(("fault", "evicted"), [("xid 54 at 1.0", False), ("xid 64 at 1.0", True)])
async def test_fault_not_repairable_by_reset_waits_for_administrator(fault, evicted):
    cluster = SimCluster([1, 1], RESETTING)
    cluster.bind("n0", "GPU-0", "pod")
    cluster.fail("n0", "GPU-0", fault=fault)
    await cluster.run_passes(8)
    assert not cluster.jobs
    assert bool(cluster.list_done(Evict)) is evicted
    assert [each.reason for each in cluster.list_done(NodeEvent)] == ["CardIsolated", "RepairNeeded"]


async def test_remediation_is_reverted_after_card_is_healthy_long_enough():
    cluster = SimCluster([1, 1])
    node = cluster.nodes["n0"]
    node.annotations[CORDON_KEY] = "3"
    node.taints = [make_taint("theirs")]
    before = node.state
    cluster.fail("n0", "GPU-0", fault=DRAIN)
    await run_until(cluster, RemediationStep.REPAIRING)
    cluster.mend("n0", "GPU-0")
    await cluster.run_pass()
    await cluster.run_pass(after=599)
    assert node.annotations[CORDON_KEY] == "3,GPU-0"
    await cluster.run_pass(after=2)
    assert node.state == before


async def test_period_of_unknown_health_does_not_count_as_healthy():
    cluster = make_failed()
    await run_until(cluster, RemediationStep.REPAIRING)
    cluster.mend("n0", "GPU-0")
    await cluster.run_pass()
    cluster.lose_sight("n0", "GPU-0")
    await cluster.run_pass(after=599)
    cluster.mend("n0", "GPU-0")
    await cluster.run_pass(after=10)
    await cluster.run_pass(after=590)
    assert find_card(cluster) is not None
    await cluster.run_pass(after=20)
    assert find_card(cluster) is None


async def test_card_that_fails_during_validation_is_isolated_again():
    cluster = make_failed()
    await run_until(cluster, RemediationStep.REPAIRING)
    cluster.mend("n0", "GPU-0")
    await cluster.run_pass()
    cluster.fail("n0", "GPU-0", fault="xid 48 at 2.0")
    await cluster.run_pass()
    assert (found := find_card(cluster)).step is RemediationStep.ISOLATED
    assert (found.reason, found.cordoned) == ("Xid48", True)


async def test_requested_stage_must_pass_after_repair():
    settings = RemediationSettings(mode=Mode.ON, stages=(Stage.PLUGIN_CHECK,), max_unavailable=1.0)
    cluster = make_failed(settings)
    await run_until(cluster, RemediationStep.REPAIRING)
    cluster.mend("n0", "GPU-0")
    await cluster.run_pass()
    for found_at, lifted in ((cluster.now - 5, False), (cluster.now + 5, True)):
        result = StageResult(Outcome.PASS, found_at=found_at)
        record = write_stages(StageRecord({Stage.PLUGIN_CHECK: result}))
        cluster.nodes["n0"].annotations["accelkit.io/stages"] = record
        await cluster.run_pass(after=700)
        assert (find_card(cluster) is None) is lifted


@pytest.mark.parametrize("what", ["agent", "ready", "record", "unknown", "cordoned"])
async def test_remediation_does_nothing_on_unknown_or_cordoned_node(what):
    cluster = make_failed()
    node = cluster.nodes["n0"]
    if what == "agent":
        node.watched = False
    elif what == "ready":
        node.conditions = [{"type": "Ready", "status": "Unknown"}]
    elif what == "record":
        node.annotations[REMEDIATION_ANNOTATION] = '{"version":2}'
    elif what == "cordoned":
        node.unschedulable = True
    else:
        cluster.lose_sight("n0", "GPU-0")
    before = node.state
    await cluster.run_passes(5)
    assert node.state == before
    assert cluster.done == []


async def test_write_is_discarded_if_node_changed_since_read():
    cluster = make_failed()
    read = cluster.read

    async def read_late(name):
        view = await read(name)
        cluster.nodes[name].version += 1
        return view

    cluster.read = read_late
    await cluster.run_pass()
    assert cluster.nodes["n0"].state == SimCluster([1, 1]).nodes["n0"].state


async def test_dry_run_reports_plan_once_and_changes_nothing():
    cluster = SimCluster([1, 1, 1, 1], RemediationSettings(mode=Mode.DRY_RUN, max_unavailable=0.5, trip_share=1.0))
    cluster.bind("n0", "GPU-0", "pod")
    for name in ("n0", "n1", "n2"):
        cluster.fail(name, "GPU-0", fault=DRAIN)
    states = [each.state for each in cluster.nodes.values()]
    await cluster.run_passes(5)
    assert [each.state for each in cluster.nodes.values()] == states
    told = cluster.list_done(NodeEvent)
    assert [each.reason for each in told] == ["RemediationPlanned"] * 2
    assert "evict a/pod" in told[0].message
    assert len(cluster.done) == 2
    assert b'actions_total{action="isolate",result="planned"} 2.0' in cluster.metrics.render()


def test_record_of_unknown_version_or_invalid_json_is_unreadable():
    assert read_record('{"version":2,"cards":7}') is None
    assert read_record("{") is None
    assert read_record("[" * 40_000) is None
    assert read_record(None).empty


@pytest.mark.parametrize("writes", range(5))
async def test_remediation_resumes_after_being_killed_at_any_request(writes):
    cluster = SimCluster([1, 1], RESETTING)
    before = cluster.nodes["n0"].state
    cluster.bind("n0", "GPU-0", "pod")
    cluster.fail("n0", "GPU-0", fault=DRAIN)
    for _ in range(60):
        # Every second pass is whole.
        await cluster.run_pass(writes=writes)
        await cluster.run_pass()
        cluster.jobs = dict.fromkeys(cluster.jobs, JobState.SUCCEEDED)
        if cluster.nodes["n0"].annotations.pop("accelkit.io/mended", None):
            cluster.mend("n0", "GPU-0")
    assert cluster.nodes["n0"].state == before
    assert len(cluster.jobs) == 1
    assert len({each.name for each in cluster.list_done(CreateJob)}) == 1


async def test_pod_placed_before_job_creation_prevents_job():
    cluster = make_failed(RESETTING)
    await run_until(cluster, RemediationStep.REPAIRING)
    stranger = (PodWithCard(PodRef("a", "unknown", "u"), stays=True),)
    for found in (RemediationStep.DRAINING, RemediationStep.REPAIRING):
        # Once before the name of the Job is written, and once after.
        cluster.nodes["n0"].unplaced = stranger
        await cluster.run_pass()
        assert (find_card(cluster).step, cluster.jobs) == (found, {})
        cluster.nodes["n0"].unplaced = ()
        await run_until(cluster, RemediationStep.REPAIRING)
        while not find_card(cluster).job:
            await cluster.run_pass()
    await cluster.run_pass()
    assert len(cluster.jobs) == 1
