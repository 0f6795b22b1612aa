"""`accelkit defrag` on a real API server: its plan names who leaves, and its application evicts them alone."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys

import msgspec
import pytest
from extender_process import MEMORY, PODS, assignment, world_of

from accelkit.errors import ApiError

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PRIORITIES = {"low": 1, "middle": 2, "high": 10}


async def create_classes(api):
    for name, value in PRIORITIES.items():
        with contextlib.suppress(ApiError):
            await api.post(CLASSES, {"metadata": {"name": f"defrag-{name}"}, "value": value})


async def defrag(kubeconfig, *arguments):
    """What the command prints."""
    command = (sys.executable, "-m", "accelkit", "defrag", "--kubeconfig", str(kubeconfig), *arguments)
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()
    return msgspec.json.decode(out)


async def test_a_plan_names_who_leaves_and_an_application_evicts_them(control_plane):
    async with world_of(control_plane.kubeconfig) as world:
        await create_classes(world.api)
        node = await world.node(2, 8, allocatable={"cpu": "8", "memory": "8Gi", "pods": "20", MEMORY: "16"})
        # One that is there, since the garbage collector looks for it, and that makes no other pod in this test.
        meta = msgspec.json.decode(await world.api.post(CONFIG_MAPS, {"metadata": {"name": node}}))["metadata"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": node, "uid": meta["uid"], "controller": True}
        running = []
        for place, priority in enumerate(("low", "middle")):
            spec = {"priorityClassName": f"defrag-{priority}"}
            pod = await world.pod(5, node_name=node, annotations=assignment(f"{node}-{place}", 5), spec=spec)
            path = f"{PODS}/{pod['metadata']['name']}"
            await world.api.patch(path, {"metadata": {"ownerReferences": [owner]}})
            running.append(pod)
        placement = {"nodeSelector": {"accelkit-test": node}, "tolerations": [{"operator": "Exists"}]}
        waiting = await world.pod(5, spec={**placement, "priorityClassName": "defrag-high"})
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        path = f"{PODS}/{waiting['metadata']['name']}"
        await world.api.patch(f"{path}/status", {"status": {"conditions": [condition]}})

        def planned(plan):
            steps = [step for step in plan["steps"] if step["uid"] == waiting["metadata"]["uid"]]
            return [(step["node"], [each["uid"] for each in step["evictions"]]) for step in steps]

        expected = [(node, [running[0]["metadata"]["uid"]])]
        assert planned(await defrag(control_plane.kubeconfig, "--plan", "-o", "json")) == expected
        assert (await world.read(running[0]))["metadata"]["uid"] == running[0]["metadata"]["uid"]
        assert planned(await defrag(control_plane.kubeconfig, "--apply", "--yes", "-o", "json")) == expected
        with pytest.raises(ApiError, match="not found"):
            await world.read(running[0])
        assert await world.read(running[1])
        # With the card free, nobody else leaves.
        assert planned(await defrag(control_plane.kubeconfig, "-o", "json")) == [(node, [])]
        await world.api.delete(f"{CONFIG_MAPS}/{node}")
