"""What `accelkit verify` reads, and what is not known where a list is refused."""

import pytest
from support.clocks import Clock

from accelkit.enablement import verifying as module
from accelkit.enablement.verifying import verify_stages
from accelkit.errors import ApiError, ServiceError
from accelkit.model.stage import Stage


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "asyncio", clock)
    return clock


def outcomes(report, stage):
    return {node.name: str(node.stages[list(Stage).index(stage)].outcome) for node in report.nodes}


async def test_number_of_lists_does_not_depend_on_number_of_nodes(enabled):
    api = enabled(*(f"node-{number}" for number in range(20))).serve()
    report = await verify_stages(api, namespace="accelkit")
    assert (len(report.nodes), report.exit_code) == (20, 0)
    asked = [(request.method, request.path) for request in api.requests]
    assert len(set(asked)) == 4
    assert not api.writes


async def test_caches_and_pods_of_selected_namespace_are_read(cluster):
    cluster.install_caches(("", "triton", {"type": "Ready", "status": "False", "reason": "NotSigned"}))
    report = await verify_stages(cluster.serve(), namespace="accelkit")
    assert outcomes(report, Stage.KERNEL_CACHE_CHECK) == {"n": "fail"}
    report = await verify_stages(cluster.serve(), namespace="elsewhere")
    assert outcomes(report, Stage.DEVICE_PLUGIN) == {"n": "fail"}


@pytest.mark.parametrize(
    ("path", "stage"), [("/pods", Stage.DEVICE_PLUGIN), ("clustergkmcachenodes", Stage.KERNEL_CACHE_CHECK)]
)
@pytest.mark.parametrize("status", [0, 403, 503])
async def test_refused_list_affects_only_dependent_stages(cluster, path, stage, status):
    cluster.install_caches()
    api = cluster.serve()
    api.fail(ApiError("it is not to be had", status=status), path=path, times=None)
    report = await verify_stages(api, namespace="accelkit")
    assert outcomes(report, stage) == {"n": "unknown"}
    assert outcomes(report, Stage.RUNTIME_HOOK) == {"n": "pass"}
    assert report.exit_code == 3


async def test_cache_stage_is_skipped_if_caches_are_unreadable_and_not_installed(cluster):
    api = cluster.serve()
    api.fail(ApiError("it is forbidden", status=403), path="clustergkmcachenodes", times=None)
    report = await verify_stages(api, namespace="accelkit")
    assert outcomes(report, Stage.KERNEL_CACHE_CHECK) == {"n": "skipped"}


async def test_verify_fails_without_node_list(cluster):
    api = cluster.serve()
    api.fail(ApiError("connection refused"), path="/nodes", times=None)
    with pytest.raises(ApiError, match="connection refused"):
        await verify_stages(api, namespace="accelkit")


async def test_named_nodes_are_unknown_without_node_list(cluster):
    api = cluster.serve()
    api.fail(ApiError("connection refused"), times=None)
    report = await verify_stages(api, namespace="accelkit", nodes=["n"])
    cell = report.nodes[0].stages[0]
    assert (cell.outcome, cell.reason) == ("unknown", "NodesUnread")
    assert cell.evidence == "the nodes cannot be listed: connection refused"
    assert report.exit_code == 3


async def test_missing_named_node_is_reported_beside_existing_nodes(enabled):
    report = await verify_stages(enabled("a", "b").serve(), namespace="accelkit", nodes=["b", "gone"])
    assert outcomes(report, Stage.DISCOVER) == {"b": "pass", "gone": "fail"}
    gone = report.nodes[1].stages
    assert (gone[0].reason, gone[0].next_action) == ("NodeMissing", "Compare the name with `kubectl get nodes`")
    assert {(cell.outcome, cell.because) for cell in gone[1:]} == {("skipped", Stage.DISCOVER)}


async def test_unshared_nodes_without_cards_are_not_listed(enabled):
    cluster = enabled("cards", "none", "shared")
    for name in ("cards", "none"):
        del cluster[name].labels["accelkit.io/share"]
    cluster["none"].cards = []
    report = await verify_stages(cluster.serve(), namespace="accelkit")
    assert outcomes(report, Stage.DISCOVER) == {"cards": "skipped", "shared": "pass"}


async def test_cluster_without_shared_node_is_rejected(cluster):
    del cluster.node.labels["accelkit.io/share"]
    with pytest.raises(ServiceError, match=r"no node is labelled accelkit\.io/share=true; run site\.yml"):
        await verify_stages(cluster.serve(), namespace="accelkit")


async def test_undecodable_node_is_reported_missing_without_affecting_other_nodes(enabled):
    api = enabled("a", "b").serve()
    api.objects["/api/v1/nodes/a"]["status"]["nodeInfo"] = 7
    report = await verify_stages(api, namespace="accelkit", nodes=["a", "b"])
    assert outcomes(report, Stage.DISCOVER) == {"a": "fail", "b": "pass"}


async def test_transient_fault_that_disappears_in_time_is_not_reported(cluster, clock):
    api = cluster.serve()
    pod = next(each for path, each in api.objects.items() if "/pods/" in path)
    conditions = pod["status"].pop("conditions")

    async def come_up(_request):
        if clock.now >= 3:
            pod["status"]["conditions"] = conditions

    api.before.append(come_up)
    report = await verify_stages(api, namespace="accelkit", seconds=10)
    assert (report.exit_code, clock.now) == (0, 3)


async def test_persistent_fault_is_reported_at_deadline(cluster, clock):
    cluster.node.pods.clear()
    report = await verify_stages(cluster.serve(), namespace="accelkit", seconds=10)
    assert (report.exit_code, clock.now) == (4, 10)


async def test_stale_result_causes_no_wait(cluster, clock, another_state):
    cluster.node.checked_in = another_state
    report = await verify_stages(cluster.serve(), namespace="accelkit", seconds=10)
    assert (report.exit_code, clock.now) == (3, 0)
