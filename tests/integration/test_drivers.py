"""Drivers on a real API server: plans by several kernels, labels, cordons and evictions under a budget."""

import contextlib
from functools import partial

import pytest
from extender_process import MEMORY, PODS, world_of

from accelkit.enablement.drivers.cluster import clear_nodes, list_recorded, plan_cluster, record_kernels
from accelkit.enablement.drivers.reading import list_driver_nodes, read_driver_node
from accelkit.enablement.drivers.settings import read_drivers
from accelkit.enablement.drivers.upgrading.cordon import take_step
from accelkit.enablement.drivers.upgrading.drain import drain_cards
from accelkit.enablement.drivers.upgrading.record import begin, end
from accelkit.errors import ApiError, ServiceError
from accelkit.kube.paths import build_node_path
from accelkit.model.keys import DRIVER_KERNEL_LABEL

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

KERNELS = ("6.1.0-18-amd64", "6.1.0-20-amd64")
DRIVERS = read_drivers({"simulated": {"image": "registry.example.org/driver:${KERNEL_FULL_VERSION}"}})
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def add_node(world, kernel):
    """A node with a card, that reports this kernel and is ready; of its own, so that no kubelet writes over it."""
    name = await world.node(1, 8, allocatable={"cpu": "8", "memory": "8Gi", "pods": "20", MEMORY: "8"})
    info = {"architecture": "amd64", "bootID": "boot", "containerRuntimeVersion": "x", "kernelVersion": kernel}
    info |= {"kubeProxyVersion": "x", "kubeletVersion": "v1.34.4", "machineID": "x", "operatingSystem": "linux"}
    info |= {"osImage": "Debian GNU/Linux 12 (bookworm)", "systemUUID": "x"}
    ready = {"type": "Ready", "status": "True", "reason": "x", "message": "x"}
    await world.api.patch(f"{build_node_path(name)}/status", {"status": {"nodeInfo": info, "conditions": [ready]}})
    await world.api.patch(build_node_path(name), {"spec": {"unschedulable": None}})
    return name


async def test_nodes_are_planned_by_kernel_and_labelled(control_plane):
    async with world_of(control_plane.kubeconfig) as world:
        nodes = {await add_node(world, kernel): kernel for kernel in KERNELS}
        given = {"prefix": "accelkit-driver", "namespace": "default", "in_containers": True, "node_selector": {}}
        planned = await plan_cluster(world.api, DRIVERS, **given)
        found = {name: each for each in planned.plan.sets for name in each.nodes if name in nodes}
        assert {name: each.kernel for name, each in found.items()} == nodes
        assert {name: each.system for name, each in found.items()} == dict.fromkeys(nodes, "debian12")
        await record_kernels(world.api, planned.plan.labels)
        again = await plan_cluster(world.api, DRIVERS, **given)
        assert not nodes.keys() & again.plan.labels.keys()
        for name, kernel in nodes.items():
            assert (await read_driver_node(world.api, name)).labels[DRIVER_KERNEL_LABEL] == kernel
        await clear_nodes(world.api, list_recorded(await list_driver_nodes(world.api)))
        assert list_recorded(await list_driver_nodes(world.api)) == {}


@pytest.mark.parametrize("cordoned", [False, True])
async def test_upgrade_cordons_node_and_restores_previous_state(control_plane, cordoned):
    async with world_of(control_plane.kubeconfig) as world:
        name = await add_node(world, KERNELS[0])
        if cordoned:
            await world.api.patch(build_node_path(name), {"spec": {"unschedulable": True}})
        _, step = await take_step(world.api, name, partial(begin, target="2", now=1.0))
        assert step.record.ours is not cordoned
        assert (await read_driver_node(world.api, name)).unschedulable
        await take_step(world.api, name, partial(end, now=2.0))
        after = await read_driver_node(world.api, name)
        assert (after.unschedulable, "accelkit.io/driver-upgrade" in after.annotations) == (cordoned, False)


async def test_drain_respects_disruption_budget(control_plane):
    async with world_of(control_plane.kubeconfig) as world:
        name = await add_node(world, KERNELS[0])
        pod = await world.pod(2, node_name=name)
        path = f"{PODS}/{pod['metadata']['name']}"
        await world.api.patch(path, {"metadata": {"labels": {"drained": name}}})
        # A budget protects nobody who waits.
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await world.api.patch(f"{path}/status", {"status": running})
        budget = {"metadata": {"name": name}, "spec": {"maxUnavailable": 0}}
        budget["spec"]["selector"] = {"matchLabels": {"drained": name}}
        await world.api.post(BUDGETS, budget)
        try:
            with pytest.raises(ServiceError, match=pod["metadata"]["name"]):
                await drain_cards(world.api, name, "simulated", seconds=3)
        finally:
            await world.api.delete(f"{BUDGETS}/{name}")
        # Nobody runs the pod, so nobody ends it either.
        with contextlib.suppress(ApiError):
            await world.api.delete(path, {"gracePeriodSeconds": 0})
        drained = await drain_cards(world.api, name, "simulated", seconds=60)
        assert drained.evicted == ()
