"""When a workload is rolled out, and what is said of one that is not."""

from __future__ import annotations

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError, WaitError
from accelkit.install.rollouts import wait_for_rollout
from accelkit.kube.paths import PODS


@pytest.fixture
def api():
    return FakeApi()


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


async def test_pods_that_all_run_the_template_are_a_rollout(api):
    daemon_set(api)
    assert (await wait_for_rollout(api, "DaemonSet", "ns", "w", seconds=0)).wanted == 3
    deployment(api)
    assert (await wait_for_rollout(api, "Deployment", "ns", "w", seconds=0)).wanted == 2


async def test_a_daemon_set_that_no_node_wants_is_rolled_out(api):
    daemon_set(api, desired=0, updated=0, available=0)
    assert (await wait_for_rollout(api, "DaemonSet", "ns", "w", seconds=0)).complete


@pytest.mark.parametrize("change", [{"updated": 2}, {"available": 1}, {"observed": 1}])
async def test_pods_that_are_old_or_not_ready_are_waited_for_by_their_nodes(api, change):
    daemon_set(api, **change)
    pod(api, "p-1", "n-1", ready=False)
    pod(api, "p-2", "n-2", ready=True)
    pod(api, "p-3", "", ready=False)
    with pytest.raises(WaitError) as raised:
        await wait_for_rollout(api, "DaemonSet", "ns", "w", seconds=0)
    assert raised.value.waiting.endswith("of 3 pods of DaemonSet ns/w: n-1, p-3 (no node yet)")
    assert str(raised.value) == ("after 0 s DaemonSet ns/w is not rolled out; look at its pods and their events")


@pytest.mark.parametrize("change", [{"updated": 1}, {"available": 1}, {"replicas": 3, "updated": 2}, {"observed": 1}])
async def test_a_deployment_with_pods_of_a_former_template_is_not_rolled_out(api, change):
    deployment(api, **change)
    with pytest.raises(WaitError):
        await wait_for_rollout(api, "Deployment", "ns", "w", seconds=0)


async def test_a_workload_that_does_not_exist_is_waited_for(api):
    with pytest.raises(WaitError) as raised:
        await wait_for_rollout(api, "DaemonSet", "ns", "w", seconds=0)
    assert raised.value.waiting == "DaemonSet ns/w to exist"


async def test_an_api_server_that_refuses_ends_the_wait(api):
    api.fail(ApiError("forbidden", status=403))
    with pytest.raises(ApiError, match="forbidden"):
        await wait_for_rollout(api, "DaemonSet", "ns", "w", seconds=60)
