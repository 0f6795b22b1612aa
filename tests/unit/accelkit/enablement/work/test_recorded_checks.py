import json
import time

import msgspec
import pytest

from accelkit.enablement.work import pod_life
from accelkit.enablement.work.node_stages import remove_stages, run_stages
from accelkit.enablement.work.node_view import find_resource, view_node
from accelkit.enablement.work.record import WORK_STAGES, find_valid, record_results
from accelkit.errors import ApiError, ConfigurationError
from accelkit.model.pod import Node
from accelkit.model.stage import (
    MAX_EVIDENCE,
    MAX_STAGES_BYTES,
    NodeState,
    Outcome,
    Stage,
    StageRecord,
    StageResult,
    read_record,
    write_record,
)

STAGES = "accelkit.io/stages"
STATE = NodeState("b", "6.1")
GOOD = {stage: StageResult(Outcome.PASS, found_at=100.0, state=STATE) for stage in WORK_STAGES}
AGE = 3600.0


@pytest.fixture
def run_all(cluster, check_pods):
    async def run(*names, max_age=AGE, check=False):
        return await run_stages(cluster, names, check_pods, ledger=cluster.ledger, max_age_seconds=max_age, check=check)

    return run


@pytest.fixture
def record(cluster):
    async def write(results=GOOD, max_age=AGE):
        return await record_results(cluster, "a", results, max_age_seconds=max_age)

    cluster.add("a")
    return write


def annotation(cluster, node="a"):
    return cluster.node(node)["metadata"]["annotations"].get(STAGES)


async def test_second_run_on_unchanged_cluster_writes_nothing(cluster, run_all):
    cluster.add("a")
    cluster.add("b", "nvidia")
    first = await run_all()
    assert (first.worked, first.written) == (("a", "b"), ("a", "b"))
    assert {name: each["outcome"] for name, each in cluster.recorded("a").items()} == {
        "plugin-check": "pass",
        "extender-check": "pass",
    }
    before = len(cluster.writes)
    second = await run_all()
    assert (second.worked, second.written) == ((), ())
    assert len(cluster.writes) == before
    assert msgspec.to_builtins(second.results) == msgspec.to_builtins(first.results)


async def test_changed_state_makes_result_stale_until_next_check(cluster, run_all):
    cluster.add("a")
    await run_all()
    cluster.node("a")["status"]["nodeInfo"]["bootID"] = "c"
    read = await run_all(check=True)
    assert {each.outcome for each in read.results["a"].values()} == {Outcome.STALE}
    again = await run_all()
    assert (again.worked, again.written) == (("a",), ("a",))
    assert {each.outcome for each in (await run_all(check=True)).results["a"].values()} == {Outcome.PASS}


async def test_failed_check_is_repeated_without_rewriting_equal_result(cluster, run_all):
    cluster.add("a")
    cluster.counted["a"] = None
    assert (await run_all()).written == ("a",)
    again = await run_all()
    assert (again.worked, again.written) == (("a",), ())
    cluster.counted.clear()
    assert (await run_all()).written == ("a",)


async def test_check_mode_reports_planned_checks_without_writing(cluster, run_all):
    cluster.add("a")
    found = await run_all(check=True)
    assert (found.worked, found.written) == (("a",), ("a",))
    assert {each.reason for each in found.results["a"].values()} == {"NeverChecked"}
    assert cluster.writes == []
    assert cluster.asked == 0


async def test_check_mode_predicts_no_changed_result_for_same_state(cluster, run_all):
    cluster.add("a")
    cluster.counted["a"] = None
    await run_all()
    same = await run_all(check=True)
    assert (same.worked, same.written) == (("a",), ())
    cluster.node("a")["status"]["nodeInfo"]["kernelVersion"] = "6.2"
    assert (await run_all(check=True)).written == ("a",)


async def test_shared_nodes_with_cards_are_selected_by_default(cluster, run_all):
    cluster.add("a")
    cluster.add("b", labels={"accelkit.io/share": "false"})
    cluster.store("/api/v1/nodes", {"metadata": {"name": "c"}})
    assert (await run_all(check=True)).worked == ("a",)
    assert (await run_all("b", check=True)).worked == ("b",)
    with pytest.raises(ConfigurationError, match="cannot find node d"):
        await run_all("d", check=True)


async def test_removal_deletes_annotations_and_pods(cluster, run_all):
    cluster.add("a")
    cluster.add("b", labels={"x": "y"})
    await run_all()
    cluster.node("b")["metadata"]["annotations"][STAGES] = "{"
    cluster.leave("left")
    writes = len(cluster.writes)
    would = await remove_stages(cluster, "accelkit", check=True)
    assert (would.written, would.pods, len(cluster.writes)) == (("a", "b"), 1, writes)
    did = await remove_stages(cluster, "accelkit")
    assert (did.written, did.pods) == (("a", "b"), 1)
    assert (annotation(cluster, "a"), annotation(cluster, "b"), cluster.pods) == (None, None, [])
    assert await remove_stages(cluster, "accelkit") == await remove_stages(cluster, "accelkit", check=True)


async def test_undeletable_pod_is_reported_and_does_not_block_removal(cluster, monkeypatch):
    monkeypatch.setattr(pod_life, "_GONE_SECONDS", 0.0)
    cluster.keep("p")
    did = await remove_stages(cluster, "accelkit")
    assert (did.pods, "cannot delete the check pods p in accelkit" in did.left) == (1, True)


async def test_mirror_pod_does_not_block_removal(cluster, monkeypatch):
    monkeypatch.setattr(pod_life, "_GONE_SECONDS", 0.0)
    cluster.keep("m", annotations={"kubernetes.io/config.mirror": "x"})
    assert (await remove_stages(cluster, "accelkit", check=True)).pods == 0
    assert (await remove_stages(cluster, "accelkit")).pods == 0


async def test_results_of_other_stages_are_kept(cluster, record):
    other = {Stage.DRIVER_CHECK: StageResult(Outcome.FAIL, "CardLost", "gone", "reboot", 5.0, 1.0, STATE)}
    cluster.node("a")["metadata"]["annotations"][STAGES] = write_record(StageRecord(other))
    assert (await record()).changed
    assert read_record(annotation(cluster)).results == {**other, **GOOD}


async def test_changed_times_are_written_only_after_results_expire(cluster, record):
    await record()
    later = {stage: msgspec.structs.replace(each, found_at=200.0, seconds=9.0) for stage, each in GOOD.items()}
    writes = len(cluster.writes)
    assert not (await record(later)).changed
    assert len(cluster.writes) == writes
    # What is written anew so that it is valid for longer is no change.
    assert not (await record(later, max_age=50.0)).changed
    assert read_record(annotation(cluster)).results == later


async def test_changed_evidence_is_written_and_changed_outcome_counts_as_change(cluster, record):
    await record()
    told = {stage: msgspec.structs.replace(each, evidence="of another card") for stage, each in GOOD.items()}
    assert not (await record(told)).changed
    assert read_record(annotation(cluster)).results == told
    failed = {
        stage: msgspec.structs.replace(each, outcome=Outcome.FAIL, reason="WrongResult") for stage, each in GOOD.items()
    }
    assert (await record(failed)).changed


async def test_write_conflict_is_retried_with_current_node(cluster, record):
    others = iter([{"labels": {"new": "label"}}, {"labels": {"new": "er"}}])

    def interfere(request):
        if request.method == "PATCH" and (change := next(others, None)):
            cluster.node("a")["metadata"] |= change

    cluster.before.append(interfere)
    assert (await record()).changed
    assert cluster.node("a")["metadata"]["labels"] == {"new": "er"}
    assert [each.method for each in cluster.requests].count("PATCH") == 3


async def test_permanent_write_conflict_raises_error(cluster, record):
    cluster.fail(ApiError("changed", status=409, reason="Conflict"), "PATCH", times=None)
    with pytest.raises(ApiError, match="changed"):
        await record()
    assert [each.method for each in cluster.requests].count("PATCH") == 5


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 0, "results": {}}', "x" * 20000])
async def test_unreadable_record_is_replaced(cluster, record, run_all, text):
    cluster.node("a")["metadata"]["annotations"][STAGES] = text
    assert {each.reason for each in (await run_all(check=True)).results["a"].values()} == {"RecordUnreadable"}
    assert (await record()).changed
    assert read_record(annotation(cluster)).results == GOOD


@pytest.mark.parametrize(
    ("status", "said"), [(422, "annotations: Too long"), (500, "etcdserver: request is too large")]
)
async def test_failed_record_write_does_not_affect_other_nodes(cluster, run_all, status, said):
    for name in ("a", "b", "c"):
        cluster.add(name)
    cluster.fail(ApiError(said, status=status), "PATCH", "/nodes/a", times=None)
    done = await run_all()
    assert (done.problems, done.written) == ({"a": said}, ("b", "c"))
    assert {each.outcome for each in done.results["a"].values()} == {Outcome.PASS}


async def test_recorded_text_is_sanitized_and_truncated(cluster, run_all):
    cluster.add("a")
    told = StageResult(Outcome.FAIL, "\x1b[2J" * 50, "\x1b[31m" * 200, "\r" * 500)
    text = msgspec.json.encode(StageRecord(dict.fromkeys(WORK_STAGES, told))).decode()
    cluster.node("a")["metadata"]["annotations"][STAGES] = text
    for each in (await run_all(check=True)).results["a"].values():
        assert max(map(len, (each.evidence, each.next_action))) <= MAX_EVIDENCE
        assert len(each.reason) <= 64
        assert not {"\x1b", "\r"} & {*each.reason, *each.evidence, *each.next_action}


async def test_record_of_newer_version_is_not_modified(cluster, record):
    text = json.dumps({"version": 2, "results": {"new": 1}})
    cluster.node("a")["metadata"]["annotations"][STAGES] = text
    done = await record()
    assert (done.changed, "version 2" in done.problem) == (False, True)
    assert annotation(cluster) == text


async def test_deleted_node_is_reported_without_record(cluster, record):
    del cluster.objects["/api/v1/nodes/a"]
    assert (await record()).problem == "the node no longer exists"


async def test_stages_annotation_size_is_bounded(cluster, record):
    long = "\N{SNOWMAN}\N{SNOWMAN}" * MAX_EVIDENCE
    many = {stage: StageResult(Outcome.FAIL, "WorkFailed", long, long, 1.0, 1.0, STATE) for stage in Stage}
    await record(many)
    assert len(annotation(cluster).encode()) <= MAX_STAGES_BYTES
    assert read_record(annotation(cluster)).results.keys() == set(Stage)


@pytest.mark.parametrize(
    ("change", "now", "valid"),
    [
        ({}, 100.0, True),
        ({}, 100.0 + AGE, True),
        ({}, 101.0 + AGE, False),
        # A clock that is far ahead would have results valid for ever.
        ({}, 100.0 - 1000, False),
        ({}, 100.0 - 60, True),
        ({"outcome": Outcome.FAIL}, 100.0, False),
        ({"outcome": Outcome.SKIPPED}, 100.0, False),
        ({"state": NodeState("c", "6.1")}, 100.0, False),
        ({"state": None}, 100.0, False),
    ],
)
def test_recorded_results_are_valid_for_state_and_maximum_age(change, now, valid):
    results = {**GOOD, Stage.EXTENDER_CHECK: msgspec.structs.replace(GOOD[Stage.EXTENDER_CHECK], **change)}
    found = find_valid(write_record(StageRecord(results)), STATE, now=now, max_age_seconds=AGE)
    assert (found is not None) is valid


def test_incomplete_or_unreadable_results_are_not_valid():
    one = {Stage.PLUGIN_CHECK: GOOD[Stage.PLUGIN_CHECK]}
    assert find_valid(write_record(StageRecord(one)), STATE, now=100.0, max_age_seconds=AGE) is None
    assert find_valid(None, STATE, now=100.0, max_age_seconds=AGE) is None
    assert find_valid("{", STATE, now=100.0, max_age_seconds=AGE) is None


def test_state_depends_on_cards_and_drivers_but_not_on_order():
    def state(*cards):
        text = json.dumps({"version": 1, "unit_bytes": 2**30, "cards": cards})
        node = {"metadata": {"name": "a", "annotations": {"accelkit.io/inventory": text}}}
        return view_node(msgspec.convert(node, Node)).state

    one = {"id": "x", "vendor": "nvidia", "model": "m", "memory_bytes": 1, "driver_version": "2"}
    other = {**one, "id": "y", "driver_version": "10"}
    assert state(one, other) == state(other, one)
    assert state(one, other).drivers == "10,2"
    assert state(one) != state(other)
    assert state({**one, "driver_version": "3"}) != state(one)
    assert state({**one, "health": "unhealthy"}) == state(one)


@pytest.mark.parametrize(
    ("advertised", "resource"),
    [
        ("", "accelkit.io/memory"),
        ("accelkit.io/memory,accelkit.io/cards", "accelkit.io/memory"),
        ("example.com/other", "accelkit.io/memory"),
        ("aliyun.com/gpu-mem", "aliyun.com/gpu-mem"),
    ],
)
def test_check_uses_advertised_memory_resource(advertised, resource):
    assert find_resource(advertised) == resource


async def test_recorded_results_contain_time_and_duration(cluster, run_all):
    cluster.add("a")
    started = time.time()
    await run_all()
    for result in cluster.recorded("a").values():
        assert started - 1 <= result["found_at"] <= time.time() + 1
        assert 0 <= result["seconds"] < 60
