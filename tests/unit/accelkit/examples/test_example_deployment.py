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


async def test_objects_are_applied_in_their_order_to_the_places_of_their_kinds(api):
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


async def test_a_cache_of_the_cluster_has_no_namespace_and_deploying_again_changes_nothing(api):
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


async def test_a_dry_run_creates_nothing_and_lets_the_server_judge_what_is_there(api):
    assert outcomes(await deploy(api, OBJECTS, seconds=5, dry_run=True)) == {"created"}
    assert (api.objects, api.writes) == ({}, [])
    await deploy(api, OBJECTS, seconds=5)
    api.requests.clear()
    assert outcomes(await deploy(api, OBJECTS, seconds=5, dry_run=True)) == {"unchanged"}
    assert {request.query["dryRun"] for request in api.writes} == {"All"}


@pytest.mark.parametrize(
    ("kinds", "missing"), [([], "ClusterGKMCache and GKMCache"), ([{"kind": "GKMCache"}], "serve ClusterGKMCache of")]
)
async def test_without_gkms_definitions_nothing_is_created(api, kinds, missing):
    api.documents["/apis/gkm.io/v1alpha1"] = {"resources": kinds}
    with pytest.raises(
        ExampleError, match=r"does not serve .*gkm\.io/v1alpha1.*; install the custom resource"
    ) as caught:
        await deploy(api, OBJECTS, seconds=5)
    assert missing in str(caught.value)
    assert api.writes == []


async def test_a_pod_waits_for_the_service_account_of_its_new_namespace(api):
    api.fail(TOO_EARLY, "PATCH", POD, times=2)
    await deploy(api, OBJECTS, seconds=5)
    assert POD in api.objects


async def test_a_service_account_that_never_comes_ends_with_the_deadline(api):
    api.fail(TOO_EARLY, "PATCH", POD, times=None)
    with pytest.raises(ExampleError, match=rf"^cannot create Pod {NAMESPACE}/gkm-test-pod-1\S*: timed out after 0.2 s"):
        await deploy(api, OBJECTS, seconds=0.2)


async def test_another_refusal_is_passed_on_at_once(api):
    api.fail(ApiError("admission webhook denied the request", status=403), "PATCH", "gkm-test-obj-rwo-ns-rocm-v2")
    with pytest.raises(ApiError, match="denied the request"):
        await deploy(api, OBJECTS, seconds=5)


async def test_removal_takes_workloads_then_caches_then_namespaces(api):
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


async def test_removal_of_nothing_changes_nothing(api):
    api.documents.clear()
    changes = await undeploy(api, OBJECTS, seconds=5)
    assert outcomes(changes) == {"absent"}
    assert api.writes == []


async def test_a_dry_removal_says_what_would_go(api):
    await deploy(api, OBJECTS[:3], seconds=5)
    api.requests.clear()
    changes = await undeploy(api, OBJECTS, seconds=5, dry_run=True)
    assert sum(change.changed for change in changes) == 3
    assert api.writes == []


async def test_what_stays_past_the_deadline_is_named_with_what_it_waits_for(api):
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
