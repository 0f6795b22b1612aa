"""What is gathered of each side from the API server, and when an audit looks again."""

import pytest
from support.clocks import Clock

from accelkit.audit import evidence as module
from accelkit.audit.evidence import audit_cluster, gather
from accelkit.errors import ApiError, AssignmentError, ServiceError
from accelkit.inspection.inspection import assemble, inspect_cluster
from accelkit.kube.paths import NODES, PODS, build_config_maps_path, build_node_path, build_pod_path
from accelkit.model.keys import INVENTORY_ANNOTATION
from accelkit.model.observed_allocations import ALLOCATIONS_KEY, Allocations, HeldDevices, HeldPod

GIB = 2**30


class Watched(Clock):
    """A clock that fails the test when it is read again and again without a pause."""

    asked = 0

    def monotonic(self):
        self.asked += 1
        assert self.asked < 100, "it looks again without a pause"
        return self.now


@pytest.fixture
def cluster(audited_cluster):
    """Two nodes with a card each, `n` with its pod `p` and `m` with its pod `q`."""
    cluster = audited_cluster({"n": "card-n", "m": "card-m"}, {"n": "p", "m": "q"}, namespace="ak")
    for node in ("n", "m"):
        cluster.configure(node, topologyManagerPolicy="none")
    return cluster


@pytest.fixture
def clock(monkeypatch):
    clock = Watched()
    monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr(module, "asyncio", clock)
    return clock


async def allocations_of(cluster, node="n"):
    found = (await gather(cluster, namespace="ak")).allocations[node]
    return str(found) if isinstance(found, AssignmentError) else found


async def test_evidence_of_all_nodes_with_cards_is_gathered(cluster):
    found = await gather(cluster, namespace="ak")
    assert found.assigned == assemble((await inspect_cluster(cluster)).nodes, GIB)
    assert [str(pod.ref) for pod in found.pods] == ["d/p", "d/q"]
    assert {node: [pod.name for pod in each.pods] for node, each in found.allocations.items()} == {
        "n": ["p"],
        "m": ["q"],
    }
    assert found.policies == {"n": "none", "m": "none"}
    assert (found.ledger, found.notes) == (None, [])


async def test_evidence_is_gathered_only_for_named_nodes(cluster):
    ledger = await inspect_cluster(cluster)
    found = await gather(cluster, namespace="ak", ledger=ledger, nodes=frozenset({"m"}))
    assert [node.name for node in found.assigned.nodes] == ["m"]
    assert [str(pod.ref) for pod in found.pods] == ["d/q"]
    assert (list(found.allocations), found.policies) == (["m"], {"m": "none"})
    assert [node.name for node in found.ledger.nodes] == ["m"]
    assert found.ledger.totals.used_bytes == 4 * GIB


async def test_ledger_keeps_its_own_unit(cluster):
    ledger = assemble((await inspect_cluster(cluster)).nodes, 2 * GIB)
    assert (await gather(cluster, namespace="ak", ledger=ledger)).ledger.unit_bytes == 2 * GIB


async def test_only_pods_with_cards_served_by_accelkit_are_gathered(cluster):
    cluster.put_pod("ended", "n", "Succeeded")
    cluster.put_pod("waits", "", "Pending")
    cluster.put_pod("plain", "n", resource="")
    cluster.put_pod("other", "n", resource="aliyun.com/gpu-mem")
    # Another system's own agent serves these.
    cluster.put_pod("foreign", "n", resource="gpu.intel.com/i915")
    del cluster.objects[build_pod_path("d", "foreign")]["metadata"]["annotations"]
    found = [str(pod.ref) for pod in (await gather(cluster, namespace="ak")).pods]
    assert sorted(found) == ["d/other", "d/p", "d/q"]


async def test_node_without_config_map_has_no_allocations(cluster):
    del cluster.objects[f"{build_config_maps_path('ak')}/n"]
    assert await allocations_of(cluster) is None


@pytest.mark.parametrize("labels", [{}, {"app.kubernetes.io/part-of": "accelkit"}])
async def test_config_map_with_damaged_labels_is_read(cluster, labels):
    text = cluster.objects[f"{build_config_maps_path('ak')}/n"]["data"][ALLOCATIONS_KEY]
    cluster.put_config_map("n", {ALLOCATIONS_KEY: text}, labels=labels)
    assert (await allocations_of(cluster)).node == "n"
    cluster.put_config_map("n", {ALLOCATIONS_KEY: "garbled"}, labels=labels)
    assert (await allocations_of(cluster)).startswith("cannot read the observed allocations")


async def test_allocations_of_another_node_in_config_map_are_error(cluster):
    text = cluster.objects[f"{build_config_maps_path('ak')}/m"]["data"][ALLOCATIONS_KEY]
    cluster.put_config_map("n", {ALLOCATIONS_KEY: text})
    assert await allocations_of(cluster) == "ConfigMap n contains the allocations of node m"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({ALLOCATIONS_KEY: "garbled"}, "cannot read the observed allocations: JSON is malformed"),
        ({ALLOCATIONS_KEY: '{"version": 9}'}, "observed allocations have version 9"),
        ({"another key": "{}"}, "ConfigMap n has no allocations.json"),
        (None, "ConfigMap n has no allocations.json"),
    ],
)
async def test_unreadable_allocations_are_error_of_that_node_only(cluster, data, problem):
    cluster.put_config_map("n", data)
    assert (await allocations_of(cluster)).startswith(problem)
    assert isinstance(await allocations_of(cluster, "m"), Allocations)


async def test_node_with_unreadable_inventory_has_no_allocations(cluster):
    cluster.store(NODES, {"metadata": {"name": "n", "annotations": {INVENTORY_ANNOTATION: "garbled"}}})
    found = await gather(cluster, namespace="ak")
    assert {node.name: node.state for node in found.assigned.nodes} == {"m": "shared", "n": "unknown"}
    assert list(found.allocations) == ["m"]


async def test_missing_topology_policy_in_kubelet_configuration_is_none(cluster):
    cluster.configure("n")
    cluster.configure("m", topologyManagerPolicy="restricted")
    assert (await gather(cluster, namespace="ak")).policies == {"n": "none", "m": "restricted"}


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "it does not serve /configz"),
        (b"garbled", "JSON is malformed"),
        (b'{"kubeletconfig":{"topologyManagerPolicy":"\xff"}}', ""),
        (b'{"kubeletconfig":' + b"[" * 100_000, ""),
        (ApiError("nodes/proxy is forbidden", status=403), "nodes/proxy is forbidden"),
        (ApiError("no answer"), "no answer"),
    ],
)
async def test_unreadable_kubelet_configuration_is_noted(cluster, answer, problem):
    path = f"{build_node_path('n')}/proxy/configz"
    if isinstance(answer, bytes):
        cluster.documents[path] = answer
    elif answer is None:
        del cluster.documents[path]
    else:
        cluster.fail(answer, path=path)
    found = await gather(cluster, namespace="ak")
    assert found.policies == {"m": "none"}
    (note,) = found.notes
    assert note.startswith(f"cannot read the configuration of the kubelet of n: {problem}")


async def test_api_server_error_stops_audit(cluster):
    cluster.fail(ApiError("no answer"), path=PODS)
    with pytest.raises(ApiError, match="no answer"):
        await gather(cluster, namespace="ak")


async def test_allocations_are_read_before_assignments(cluster):
    await gather(cluster, namespace="ak")
    assert [request.path for request in cluster.requests][:3] == [build_config_maps_path("ak"), NODES, PODS]


async def test_audit_without_findings_reads_evidence_once(cluster, clock):
    found = await audit_cluster(cluster, namespace="ak", seconds=10)
    assert (found.findings, cluster.looks, clock.now) == ([], 1, 0)
    assert found.notes == ["the ledger is not compared, because it was not requested"]


async def test_persistent_difference_is_reported_after_wait(cluster, clock):
    cluster.observe("n")
    found = await audit_cluster(cluster, namespace="ak", seconds=3)
    assert [(each.kind, each.pod) for each in found.findings] == [("not_allocated", "d/p")]
    assert (cluster.looks, clock.now) == (4, 3)


async def test_difference_is_reported_immediately_without_wait(cluster, clock):
    cluster.observe("n")
    assert (await audit_cluster(cluster, namespace="ak", seconds=0)).findings
    assert (cluster.looks, clock.now) == (1, 0)


async def test_difference_that_disappears_within_wait_is_not_reported(cluster, clock):
    cluster.observe("n", HeldPod("d", "ghost", {"c": HeldDevices({"card-n": 4})}))
    del cluster.objects[build_pod_path("d", "p")]

    def settle(request):
        if cluster.looks == 2:
            cluster.observe("n")

    cluster.after.append(settle)
    found = await audit_cluster(cluster, namespace="ak", seconds=10)
    assert (found.findings, cluster.looks) == ([], 3)


@pytest.mark.parametrize("first", [assemble([]), ServiceError("it is starting")], ids=["differs", "not ready"])
async def test_ledger_is_read_again_in_each_pass(cluster, clock, first):
    answers = [first, await inspect_cluster(cluster)]

    async def ledger():
        return answers.pop(0)

    found = await audit_cluster(cluster, namespace="ak", seconds=10, ledger=ledger)
    assert (found.findings, found.notes, answers) == ([], [], [])


@pytest.mark.parametrize(("back", "kind"), [(8, "ledger_differs"), (99, "unreadable_ledger")])
async def test_ledger_difference_persists_through_extender_outage(cluster, clock, back, kind):
    async def ledger():
        return ServiceError("it is starting") if 3 < clock.now < back else assemble([])

    found = await audit_cluster(cluster, namespace="ak", seconds=10, ledger=ledger)
    assert {each.kind for each in found.findings} == {kind}


@pytest.mark.parametrize("optional", [False, True])
async def test_unreadable_ledger_is_finding_or_note_if_optional(cluster, clock, optional):
    async def ledger():
        return ServiceError("no right", next_step="get one")

    found = await audit_cluster(cluster, namespace="ak", seconds=10, ledger=ledger, ledger_optional=optional)
    message = "the ledger is not compared: no right; get one"
    findings = [(each.kind, each.message) for each in found.findings]
    # Without a finding, there is nothing to wait for.
    expected = ([], [message], 0) if optional else ([("unreadable_ledger", message)], [], 10)
    assert (findings, found.notes, clock.now) == expected


async def test_differences_of_other_nodes_are_not_reported(cluster, clock):
    cluster.observe("n")
    assert (await audit_cluster(cluster, namespace="ak", seconds=0, nodes=frozenset({"m"}))).findings == []


async def test_changing_short_differences_are_not_reported(cluster, clock):
    ghosts = iter("abcdefgh")

    def move_on(_request):
        cluster.observe("n", cluster.held("p", "n"), HeldPod("d", next(ghosts), {"c": HeldDevices({"card-n": 4})}))

    cluster.before.append(lambda request: move_on(request) if request.path == build_config_maps_path("ak") else None)
    found = await audit_cluster(cluster, namespace="ak", seconds=10)
    assert (found.findings, cluster.looks) == ([], 2)


async def test_difference_with_changing_amounts_is_persistent(cluster, clock):
    amounts = iter(range(5, 20))

    def grow(_request):
        cluster.observe("n", HeldPod("d", "p", {"c": HeldDevices({"card-n": next(amounts)})}))

    cluster.before.append(lambda request: grow(request) if request.path == build_config_maps_path("ak") else None)
    found = await audit_cluster(cluster, namespace="ak", seconds=2)
    assert [(each.kind, each.pod) for each in found.findings] == [("kubelet_differs", "d/p")]
