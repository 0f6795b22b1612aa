"""What is read of a cluster for its drivers, and what is written to its nodes, on an API server in memory."""

from http import HTTPStatus

import pytest
from driver_nodes import KERNEL, OTHER, build_card, write_node
from fake_api.server import FakeApi

from accelkit.enablement.drivers.cluster import (
    COMPONENT,
    clear_nodes,
    has_module_manager,
    list_recorded,
    plan_cluster,
    record_kernels,
)
from accelkit.enablement.drivers.foreign import find_foreign_drivers
from accelkit.enablement.drivers.future.answers import RequestedApi
from accelkit.enablement.drivers.future.reading import find_fields, parse_requested_apis, read_slice_fields
from accelkit.enablement.drivers.reading import list_driver_nodes
from accelkit.enablement.drivers.settings import read_drivers
from accelkit.enablement.drivers.upgrading.record import Phase, UpgradeRecord, write_record
from accelkit.enablement.drivers.upgrading.replacing import DriverPods, wait_for_driver
from accelkit.errors import ApiError, ServiceError
from accelkit.kube.paths import NODES, build_node_path
from accelkit.model.keys import DRIVER_KERNEL_LABEL, DRIVER_UPGRADE_ANNOTATION, DRIVER_VENDOR_LABEL_PREFIX

DRIVERS = read_drivers({"nvidia": {"version": "550", "image": "i:${DRIVER_VERSION}-${KERNEL_FULL_VERSION}"}})
VENDOR = {f"{DRIVER_VENDOR_LABEL_PREFIX}nvidia": "true"}
IMAGE = f"i:550-{KERNEL}"
SETS = "/apis/apps/v1/namespaces/accelkit/daemonsets"
PODS = "/api/v1/namespaces/accelkit/pods"
LABELS = {"app.kubernetes.io/component": COMPONENT}


def cluster(*nodes):
    api = FakeApi()
    for node in nodes:
        api.store(NODES, node)
    return api


def add_pod(api, name, node, image, *, ready=True):
    return api.store(
        PODS,
        {
            "metadata": {"name": name, "namespace": "accelkit", "uid": name, "labels": LABELS},
            "spec": {"nodeName": node, "containers": [{"name": "driver", "image": image}]},
            "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
        },
    )


async def plan(api, **changed):
    given = {"prefix": "accelkit-driver", "namespace": "accelkit", "in_containers": True, "node_selector": {}}
    return await plan_cluster(api, DRIVERS, **(given | changed))


async def test_cluster_plan_lists_driver_sets_labels_and_obsolete_sets():
    api = cluster(write_node("a", recorded=KERNEL), write_node("b", kernel=OTHER), write_node("c", vendors=()))
    api.store(
        SETS,
        {
            "metadata": {"name": "former", "namespace": "accelkit", "labels": LABELS, "generation": 1},
            "status": {"desiredNumberScheduled": 0, "numberMisscheduled": 0, "observedGeneration": 1},
        },
    )
    found = await plan(api)
    assert [each.nodes for each in found.plan.sets] == [("a",), ("b",)]
    assert found.plan.labels == {"b": {DRIVER_KERNEL_LABEL: OTHER, **VENDOR}}
    assert found.obsolete.deletable == ("former",)
    assert (found.outdated, found.images, api.writes) == ((), {}, [])


GIVEN = {"a": {"nvidia": "NVIDIA's gpu-operator"}}


async def test_driver_loaded_by_another_operator_is_reported_and_not_managed():
    found = await plan(cluster(write_node("a"), write_node("b")), foreign=GIVEN)
    assert [each.nodes for each in found.plan.sets] == [("b",)]
    assert set(found.plan.labels) == {"b"}
    [problem] = [each for each in found.plan.problems if each.reason == "DriverOwned"]
    assert (problem.nodes, problem.wrong) == (("a",), False)
    assert str(problem).startswith("NVIDIA's gpu-operator loads the driver of nvidia cards (a); no action is needed")
    assert "a" not in {each.node for each in found.outdated}


@pytest.mark.parametrize(
    ("node", "foreign"),
    [
        (write_node("a"), {"a": {"amd": "AMD's gpu-operator"}, "gone": {}}),
        (write_node("a", recorded=KERNEL), GIVEN),
    ],
    ids=["for other cards", "where accelkit's driver is"],
)
async def test_unrelated_foreign_driver_does_not_exclude_node(node, foreign):
    found = await plan(cluster(node), foreign=foreign)
    assert [each.nodes for each in found.plan.sets] == [("a",)]
    assert [each.reason for each in found.plan.problems if each.reason == "DriverOwned"] == []


async def test_foreign_drivers_are_found_without_kmm_modules_of_accelkit():
    module = "kmm.node.kubernetes.io/{}.ready".format
    api = cluster(
        write_node("a", labels={"nvidia.com/gpu.deploy.driver": "true"}),
        write_node("b", labels={module("accelkit.accelkit-driver-nvidia"): ""}),
        write_node("c", labels={module("kmm.nvidia"): ""}),
        write_node("d", labels={"nvidia.com/gpu.deploy.driver": "false"}),
    )
    api.store(
        "/apis/apps/v1/daemonsets",
        {"metadata": {"name": "d", "namespace": "op", "labels": {"app": "nvidia-driver-daemonset"}}, "spec": {}},
    )
    found = await find_foreign_drivers(api)
    assert {node: dict(held) for node, held in found.items()} == {
        "a": {"nvidia": "NVIDIA's gpu-operator"},
        "b": {},
        "c": {"nvidia": "Kernel Module Management"},
        "d": {},
    }


async def test_nodes_are_selected_by_labels():
    api = cluster(write_node("a", labels={"pool": "gpu"}), write_node("b"))
    found = await plan(api, node_selector={"pool": "gpu"})
    assert [each.nodes for each in found.plan.sets] == [("a",)]


async def test_driver_sets_are_obsolete_if_drivers_do_not_run_in_containers():
    api = cluster(write_node("a", recorded=KERNEL), write_node("b", cordoned=True))
    api.store(SETS, {"metadata": {"name": "former", "namespace": "accelkit", "labels": LABELS}})
    found = await plan(api, in_containers=False)
    assert [(each.reason, each.nodes) for each in found.plan.problems] == [("NodeCordoned", ("b",))]
    assert (found.plan.sets, found.obsolete.occupied) == ((), ("former",))


async def test_outdated_nodes_have_other_pods_other_drivers_or_unfinished_upgrades():
    record = write_record(UpgradeRecord(Phase.DRAIN, "550", ours=True))
    api = cluster(
        write_node("pod", recorded=KERNEL, cards=(build_card(driver="550"),)),
        write_node("agent", recorded=KERNEL, cards=(build_card(driver="535"),)),
        write_node("resumed", recorded=KERNEL, cordoned=True, annotations={DRIVER_UPGRADE_ANNOTATION: record}),
        write_node("foreign", recorded=KERNEL, cordoned=True, cards=(build_card(driver="535"),)),
        write_node("current", recorded=KERNEL, cards=(build_card(driver="550"),)),
        write_node("unknown", recorded=KERNEL),
    )
    add_pod(api, "p", "pod", "i:old")
    add_pod(api, "c", "current", IMAGE)
    found = {each.node: each.cordoned for each in (await plan(api)).outdated}
    assert found == {"agent": False, "foreign": True, "pod": False, "resumed": False}


async def test_kernel_labels_are_written_and_removed_without_changing_cordons():
    node = write_node("a", cordoned=True, annotations={DRIVER_UPGRADE_ANNOTATION: "{}"})
    api = cluster(node, write_node("b"))
    await record_kernels(api, {"a": {DRIVER_KERNEL_LABEL: KERNEL}, "gone": {DRIVER_KERNEL_LABEL: KERNEL}})
    assert api.objects[build_node_path("a")]["metadata"]["labels"][DRIVER_KERNEL_LABEL] == KERNEL
    recorded = list_recorded(await list_driver_nodes(api))
    assert recorded == {"a": {DRIVER_KERNEL_LABEL: KERNEL}}
    await clear_nodes(api, recorded)
    assert list_recorded(await list_driver_nodes(api)) == {}
    assert api.objects[build_node_path("a")]["spec"] == {"unschedulable": True}


async def test_kmm_is_detected_by_its_custom_resource_definition():
    api = cluster()
    assert not await has_module_manager(api)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.store(definitions, {"metadata": {"name": "modules.kmm.sigs.x-k8s.io"}})
    assert await has_module_manager(api)


class Rollout:
    """A DaemonSet's controller and an agent, which act while it is waited."""

    def __init__(self, api, *acts):
        self.api, self.acts, self.time = api, list(acts), 0.0

    async def sleep(self, seconds):
        self.time += seconds
        if self.acts:
            self.acts.pop(0)(self.api)

    async def wait(self, **changed):
        desired = DriverPods("accelkit", f"app.kubernetes.io/component={COMPONENT}", (IMAGE,))
        given = {"seconds": 20, "desired": desired, "sleep": self.sleep, "clock": lambda: self.time}
        return await wait_for_driver(self.api, "a", {"nvidia": "550", "amd": "1"}, **(given | changed))


def report(driver):
    def act(api):
        api.store(NODES, write_node("a", cards=(build_card(driver=driver),)))

    return act


async def test_rollout_deletes_pods_of_other_images_and_waits_for_driver():
    api = cluster(write_node("a", cards=(build_card(driver="535"),)))
    add_pod(api, "old", "a", "i:old")
    add_pod(api, "elsewhere", "b", "i:old")
    rollout = Rollout(api, lambda api: add_pod(api, "new", "a", IMAGE), report("550"))
    assert await rollout.wait() == ["old"]
    assert f"{PODS}/elsewhere" in api.objects
    assert rollout.time == 4


async def test_rollout_keeps_pod_with_desired_image():
    api = cluster(write_node("a", cards=(build_card(driver="550"),)))
    add_pod(api, "new", "a", IMAGE)
    assert await Rollout(api).wait() == []
    assert api.writes == []


@pytest.mark.parametrize(
    ("ready", "driver", "says"),
    [(False, "550", "DriverPodNotReady"), (True, "535", "DriverOther: its cards report 535, but 550 is required")],
)
async def test_rollout_reports_last_observed_state_at_deadline(ready, driver, says):
    api = cluster(write_node("a", cards=(build_card(driver=driver),)))
    add_pod(api, "new", "a", IMAGE, ready=ready)
    with pytest.raises(ServiceError, match=says):
        await Rollout(api).wait()


async def test_check_mode_returns_pods_that_would_be_deleted():
    api = cluster(write_node("a"))
    add_pod(api, "old", "a", "i:old")
    assert await Rollout(api).wait(check=True) == ["old"]
    assert api.writes == []


async def test_rollout_retries_unavailable_api_server():
    api = cluster(write_node("a", cards=(build_card(driver="550"),)))
    api.fail(ApiError("no answer"), "GET", times=2)
    assert await Rollout(api).wait(desired=None) == []
    api.fail(ApiError("no", status=HTTPStatus.FORBIDDEN), "GET")
    with pytest.raises(ApiError, match="no"):
        await Rollout(api).wait(desired=None)


METRICS = b"""# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="batch",removed_release="1.25",resource="cronjobs",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="",removed_release="",resource="endpoints",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis{group="x",removed_release="1.9",resource="y",subresource="",version="v1"} 0
apiserver_request_total{group="batch"} 1
"""


def test_requested_deprecated_apis_are_parsed_from_metrics():
    assert parse_requested_apis(METRICS) == (
        RequestedApi("batch/v1beta1", "cronjobs", "1.25"),
        RequestedApi("v1", "endpoints", ""),
    )


def test_slice_fields_are_collected_from_devices():
    assert find_fields([]) == frozenset()
    assert find_fields([{"name": "gpu"}]) == {"devices"}
    assert find_fields([{"name": "gpu", "allowMultipleAllocations": True, "taints": []}]) == {
        "devices",
        "allowMultipleAllocations",
    }
    assert "consumesCounters" in find_fields([{"name": "gpu", "basic": {"consumesCounters": [{}]}}])


async def test_resource_slices_are_read_in_served_version_and_refusal_is_unknown():
    api = cluster()
    api.fail(ApiError("no such kind", status=HTTPStatus.NOT_FOUND), "GET", "/v1/resourceslices")
    api.fail(ApiError("no such kind", status=HTTPStatus.NOT_FOUND), "GET", "/v1beta2/resourceslices")
    path = "/apis/resource.k8s.io/v1beta1/resourceslices"
    api.store(path, {"metadata": {"name": "s"}, "spec": {"nodeName": "a", "devices": [{"name": "gpu"}]}})
    assert await read_slice_fields(api) == {"a": {"devices"}}
    api.fail(ApiError("no", status=HTTPStatus.FORBIDDEN), "GET")
    assert await read_slice_fields(api) is None
