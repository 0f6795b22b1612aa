import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.install.workloads import Workload, list_workloads_requesting
from accelkit.kube.paths import build_collection_path

MEMORY = "accelkit.io/memory"


GROUPS = {"pods": "v1", "replicationcontrollers": "v1", "jobs": "batch/v1", "cronjobs": "batch/v1"}


def cluster(**collections):
    api = FakeApi()
    for plural, items in collections.items():
        for each in items:
            api.store(build_collection_path(GROUPS.get(plural, "apps/v1"), plural), each)
    return api


def asking(amount="8", resource=MEMORY, *, init=False):
    container = {"name": "c", "resources": {"limits": {resource: amount}}}
    return {"initContainers": [container], "containers": [{"name": "m"}]} if init else {"containers": [container]}


def item(name="w", spec=None, *, owner=None, status=None):
    owners = [{"kind": owner, "controller": True}] if owner else None
    metadata = {"name": name, "namespace": "d", "ownerReferences": owners}
    return {"metadata": {k: v for k, v in metadata.items() if v}, "spec": spec or {}, "status": status or {}}


def template(name="w", **more):
    return item(name, {"template": {"spec": asking()}}, **more)


async def found(**collections):
    return [f"{each.kind} {each.name}" for each in await list_workloads_requesting(cluster(**collections), [MEMORY])]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("deployments", "Deployment"),
        ("statefulsets", "StatefulSet"),
        ("daemonsets", "DaemonSet"),
        ("replicasets", "ReplicaSet"),
        ("replicationcontrollers", "ReplicationController"),
        ("jobs", "Job"),
    ],
)
async def test_pod_templates_of_every_kind_are_read(path, kind):
    assert await found(**{path: [template()]}) == [f"{kind} w"]


@pytest.mark.parametrize("old", [False, True])
async def test_cron_jobs_are_read_in_both_api_versions(api, old):
    version = "batch/v1beta1" if old else "batch/v1"
    template_of_job = {"jobTemplate": {"spec": {"template": {"spec": asking()}}}}
    api.store(build_collection_path(version, "cronjobs"), item("w", template_of_job))
    if old:
        api.fail(ApiError("not found", status=404), path=build_collection_path("batch/v1", "cronjobs"))
    assert await list_workloads_requesting(api, [MEMORY]) == [Workload("d", "CronJob", "w", (("c", "8"),))]


async def test_objects_owned_by_a_listed_workload_are_omitted():
    pods = [item("p", asking(), owner="ReplicaSet", status={"phase": "Pending"})]
    assert await found(replicasets=[template(owner="Deployment")], jobs=[template(owner="CronJob")], pods=pods) == []


async def test_pending_pods_without_owner_or_with_custom_owner_are_listed():
    pods = [
        item("alone", asking(init=True), status={"phase": "Pending"}),
        item("operated", asking(), owner="PyTorchJob", status={"phase": "Pending"}),
        item("bound", {**asking(), "nodeName": "n"}, status={"phase": "Pending"}),
        item("running", {**asking(), "nodeName": "n"}, status={"phase": "Running"}),
    ]
    assert await found(pods=pods) == ["Pod alone", "Pod operated"]


async def test_finished_jobs_are_omitted():
    ended = {"conditions": [{"type": "Complete", "status": "True"}]}
    running = {"conditions": [{"type": "Suspended", "status": "True"}]}
    assert await found(jobs=[template("old", status=ended), template("new", status=running)]) == ["Job new"]


@pytest.mark.parametrize("spec", [asking("0"), asking(resource="cpu"), {}])
async def test_workload_without_requested_resource_is_omitted(spec):
    assert await found(deployments=[item("w", {"template": {"spec": spec}})]) == []


async def test_unreadable_collection_is_an_error(api):
    api.fail(ApiError("forbidden", status=403), path="/deployments")
    with pytest.raises(ApiError, match="forbidden"):
        await list_workloads_requesting(api, [MEMORY])
