import pytest

from accelkit.errors import ApiError, ExampleError
from accelkit.examples import deployment
from accelkit.examples.deployment import deploy, undeploy
from accelkit.examples.example import SETS
from accelkit.examples.objects import build_objects

OBJECTS = [item for example in SETS["kind"] for item in build_objects(example)]
NAMESPACE = "gkm-test-ns-1-rox-ns-rocm-v3"
POD = f"/api/v1/namespaces/{NAMESPACE}/pods/gkm-test-pod-1-rox-ns-rocm-v3"
TOO_EARLY = ApiError(
    f'pods "p" is forbidden: error looking up service account {NAMESPACE}/default: serviceaccount "default" not found',
    status=403,
    reason="Forbidden",
)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(deployment, "_POLL_SECONDS", 0)


def written(api):
    return [request.path for request in api.writes]


def outcomes(changes):
    return {str(change.outcome) for change in changes}


async def test_objects_are_applied_in_order_to_paths_of_their_kinds(api):
    changes = await deploy(api, OBJECTS[:6], seconds=5)
    suffix = "rwo-ns-rocm-v2"
    assert written(api) == [
        f"/api/v1/namespaces/gkm-test-ns-1-{suffix}",
        f"/apis/gkm.io/v1alpha1/namespaces/gkm-test-ns-1-{suffix}/gkmcaches/gkm-test-obj-{suffix}",
        *(f"/apis/apps/v1/namespaces/gkm-test-ns-1-{suffix}/daemonsets/gkm-test-ds-{n}-{suffix}" for n in (1, 2, 3)),
        "/api/v1/namespaces/gkm-test-ns-1-rwo-cl-rocm-v3",
    ]
    assert [change.object for change in changes[:2]] == [
        f"Namespace gkm-test-ns-1-{suffix}",
        f"GKMCache gkm-test-ns-1-{suffix}/gkm-test-obj-{suffix}",
    ]
    assert outcomes(changes) == {"created"}


async def test_cluster_cache_has_no_namespace_and_second_deployment_changes_nothing(api):
    await deploy(api, OBJECTS, seconds=5)
    assert "/apis/gkm.io/v1alpha1/clustergkmcaches/gkm-test-obj-rwo-cl-rocm-v3" in api.objects
    # As the scheduler and the kubelet do.
    api.objects[POD]["spec"]["nodeName"] = "n"
    api.objects[POD]["status"] = {"phase": "Running"}
    again = await deploy(api, OBJECTS, seconds=5)
    assert outcomes(again) == {"unchanged"}
    assert not any(change.changed for change in again)
    api.objects[POD]["spec"]["tolerations"] = []
    again = await deploy(api, OBJECTS, seconds=5)
    assert [change.object for change in again if change.changed] == [f"Pod {NAMESPACE}/gkm-test-pod-1-rox-ns-rocm-v3"]


async def test_dry_run_writes_nothing_and_compares_existing_objects_on_server(api):
    assert outcomes(await deploy(api, OBJECTS, seconds=5, dry_run=True)) == {"created"}
    assert (api.objects, api.writes) == ({}, [])
    await deploy(api, OBJECTS, seconds=5)
    api.requests.clear()
    assert outcomes(await deploy(api, OBJECTS, seconds=5, dry_run=True)) == {"unchanged"}
    assert {request.query["dryRun"] for request in api.writes} == {"All"}


@pytest.mark.parametrize(
    ("kinds", "missing"), [([], "ClusterGKMCache and GKMCache"), ([{"kind": "GKMCache"}], "serve ClusterGKMCache of")]
)
async def test_deployment_without_gkm_definitions_creates_nothing(api, kinds, missing):
    api.documents["/apis/gkm.io/v1alpha1"] = {"resources": kinds}
    with pytest.raises(
        ExampleError, match=r"does not serve .*gkm\.io/v1alpha1.*; install the custom resource"
    ) as caught:
        await deploy(api, OBJECTS, seconds=5)
    assert missing in str(caught.value)
    assert api.writes == []


async def test_pod_creation_is_retried_until_service_account_exists(api):
    api.fail(TOO_EARLY, "PATCH", POD, times=2)
    await deploy(api, OBJECTS, seconds=5)
    assert POD in api.objects


async def test_missing_service_account_is_reported_at_deadline(api):
    api.fail(TOO_EARLY, "PATCH", POD, times=None)
    with pytest.raises(ExampleError, match=rf"^cannot create Pod {NAMESPACE}/gkm-test-pod-1\S*: timed out after 0.2 s"):
        await deploy(api, OBJECTS, seconds=0.2)


async def test_other_refusals_are_raised_immediately(api):
    api.fail(ApiError("admission webhook denied the request", status=403), "PATCH", "gkm-test-obj-rwo-ns-rocm-v2")
    with pytest.raises(ApiError, match="denied the request"):
        await deploy(api, OBJECTS, seconds=5)


async def test_removal_deletes_workloads_then_caches_then_namespaces(api):
    await deploy(api, OBJECTS, seconds=5)
    api.requests.clear()
    api.lingering = {"pods": 3, "daemonsets": 2, "namespaces": 3}
    changes = await undeploy(api, OBJECTS, seconds=5)
    assert api.objects == {}
    assert outcomes(changes) == {"deleted"}
    wave = {"pods": 1, "daemonsets": 1, "gkmcaches": 2, "clustergkmcaches": 2, "namespaces": 3}
    waves = [wave[path.split("/")[-2]] for path in written(api)]
    assert waves == sorted(waves)
    assert waves.count(1) == 12


async def test_removal_without_objects_changes_nothing(api):
    api.documents.clear()
    changes = await undeploy(api, OBJECTS, seconds=5)
    assert outcomes(changes) == {"absent"}
    assert api.writes == []


async def test_dry_run_of_removal_reports_objects_without_deletion(api):
    await deploy(api, OBJECTS[:3], seconds=5)
    api.requests.clear()
    changes = await undeploy(api, OBJECTS, seconds=5, dry_run=True)
    assert sum(change.changed for change in changes) == 3
    assert api.writes == []


async def test_objects_that_remain_after_deadline_are_named_with_finalizer(api):
    await deploy(api, OBJECTS, seconds=5)
    cache = "/apis/gkm.io/v1alpha1/clustergkmcaches/gkm-test-obj-rwo-cl-rocm-v3"
    api.objects[cache]["metadata"]["finalizers"] = ["gkm.io.clustergkmcachenode/finalizer"]
    api.lingering = {"clustergkmcaches": -1}
    words = (
        r"^cannot delete all objects within 0.5 s: ClusterGKMCache \S+; "
        r"ClusterGKMCache gkm-test-obj-rwo-cl-rocm-v3 waits for gkm\.io\.clustergkmcachenode/finalizer; check that"
    )
    with pytest.raises(ExampleError, match=words):
        await undeploy(api, OBJECTS, seconds=0.5)
    assert not any("/pods/" in path or "/daemonsets/" in path for path in api.objects)
    assert "/api/v1/namespaces/gkm-test-ns-1-rwo-cl-rocm-v3" in api.objects
