"""When a workload is rolled out, and what is said of one that is not."""

import pytest

from accelkit.errors import ApiError, WaitError
from accelkit.install import rollouts
from accelkit.install.rollouts import wait_for_rollout
from accelkit.kube.paths import PODS, build_leases_path


def daemon_set(api, *, desired=3, updated=3, available=3, observed=2):
    status = {"observedGeneration": observed, "desiredNumberScheduled": desired, "updatedNumberScheduled": updated}
    body = {"metadata": {"name": "w", "namespace": "ns", "generation": 2}, "spec": {}}
    api.store("/apis/apps/v1/daemonsets", {**body, "status": {**status, "numberAvailable": available}})


def deployment(api, *, wanted=2, replicas=2, updated=2, available=2, observed=2):
    status = {"observedGeneration": observed, "replicas": replicas, "updatedReplicas": updated}
    body = {"metadata": {"name": "w", "namespace": "ns", "generation": 2}, "spec": {"replicas": wanted}}
    api.store("/apis/apps/v1/deployments", {**body, "status": {**status, "availableReplicas": available}})


def pod(api, name, node, *, ready):
    metadata = {"name": name, "namespace": "ns", "labels": {"app.kubernetes.io/name": "w"}}
    status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    api.store(PODS, {"metadata": metadata, "spec": {"nodeName": node} if node else {}, "status": status})


async def wait(api, kind="Deployment", *, seconds=0, lease=""):
    return await wait_for_rollout(api, kind, "ns", "w", seconds=seconds, lease=lease)


async def fail(api, kind="Deployment", **given):
    """Return why a wait is over without a rollout."""
    with pytest.raises(WaitError) as raised:
        await wait(api, kind, **given)
    return raised.value


async def test_rollout_is_complete_if_all_pods_run_the_template(api):
    daemon_set(api)
    assert (await wait(api, "DaemonSet")).desired == 3
    deployment(api)
    assert (await wait(api)).desired == 2


async def test_daemon_set_without_nodes_is_rolled_out(api):
    daemon_set(api, desired=0, updated=0, available=0)
    assert (await wait(api, "DaemonSet")).complete


@pytest.mark.parametrize("change", [{"updated": 2}, {"available": 1}, {"observed": 1}])
async def test_timeout_error_names_nodes_of_outdated_or_unready_pods(api, change):
    daemon_set(api, **change)
    pod(api, "p-1", "n-1", ready=False)
    pod(api, "p-2", "n-2", ready=True)
    pod(api, "p-3", "", ready=False)
    error = await fail(api, "DaemonSet")
    assert error.waiting.endswith("of 3 pods of DaemonSet ns/w: n-1, p-3 (no node yet)")
    assert str(error) == "after 0 s DaemonSet ns/w is not rolled out; check its pods and their events"


@pytest.mark.parametrize("lease", ["", "l"])
@pytest.mark.parametrize("change", [{"updated": 1}, {"available": 1}, {"replicas": 3, "updated": 2}, {"observed": 1}])
async def test_deployment_with_outdated_pods_is_not_rolled_out(api, change, lease):
    deployment(api, **change)
    assert "Deployment ns/w is not rolled out" in str(await fail(api, lease=lease))


async def test_missing_workload_is_awaited(api):
    assert (await fail(api, "DaemonSet")).waiting == "DaemonSet ns/w to exist"


async def test_refused_request_ends_the_wait(api):
    api.fail(ApiError("forbidden", status=403))
    with pytest.raises(ApiError, match="forbidden"):
        await wait(api, "DaemonSet", seconds=60)


def hold(api, holder):
    spec = {} if holder is None else {"holderIdentity": holder}
    api.store(build_leases_path("ns"), {"metadata": {"name": "l", "namespace": "ns"}, "spec": spec})


@pytest.mark.parametrize("holder", ["p-1", "p-1_0a1b"])
async def test_workload_is_rolled_out_if_its_pod_holds_the_lease(api, holder):
    deployment(api)
    pod(api, "p-1", "n-1", ready=True)
    hold(api, holder)
    assert (await wait(api, lease="l")).desired == 2


@pytest.mark.parametrize("holder", ["no lease", None, "", "p-0", "p", "_p-1"])
async def test_lease_without_holder_in_the_workload_is_awaited(api, holder):
    deployment(api)
    pod(api, "p-1", "n-1", ready=True)
    if holder != "no lease":
        hold(api, holder)
    error = await fail(api, lease="l")
    assert error.waiting == "a pod of Deployment ns/w to hold Lease ns/l"
    assert str(error) == "after 0 s no pod of Deployment ns/w holds Lease ns/l; check the logs of its pods"


async def test_wait_ends_when_a_pod_acquires_the_lease(api, monkeypatch):
    deployment(api)
    pod(api, "p-1", "n-1", ready=True)

    async def sleep(_seconds):
        hold(api, "p-1")

    monkeypatch.setattr(rollouts.asyncio, "sleep", sleep)
    assert (await wait(api, seconds=60, lease="l")).complete
