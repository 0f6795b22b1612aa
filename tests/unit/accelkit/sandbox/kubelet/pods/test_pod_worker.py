"""One admitted pod, with containers that are simulated."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime

import msgspec

from accelkit.model.pod import PodCondition
from accelkit.sandbox.kubelet.devices.device_manager import DeviceManager
from accelkit.sandbox.kubelet.pods.containers import NodeContext
from accelkit.sandbox.kubelet.pods.pod_worker import EXIT_ANNOTATION, PodWorker
from accelkit.sandbox.kubelet.wire import Container, Pod, PodMeta, PodSpec, PodStatus, ResourceRequirements

DEADLINE = 30
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Api:
    """Keeps each status that is written, as it is on the wire."""

    server = "https://api"

    def __init__(self):
        self.statuses = asyncio.Queue()

    async def patch(self, _path, body):
        self.statuses.put_nowait(msgspec.json.decode(msgspec.json.encode(body))["status"])

    async def follow(self, phase):
        async with asyncio.timeout(DEADLINE):
            while (status := await self.statuses.get())["phase"] != phase:
                pass
        return status


def pod_of(conditions=(), **metadata):
    meta = PodMeta(name="p", namespace="default", uid="u", **metadata)
    resources = ResourceRequirements(limits={"cpu": "1"}, requests={"cpu": "500m"})
    spec = PodSpec(containers=[Container(name="main", image="other", resources=resources)])
    return Pod(metadata=meta, spec=spec, status=PodStatus(conditions=tuple(conditions)))


def worker_of(folder, api):
    node = NodeContext(
        name="n",
        root=folder,
        image="accelkit",
        api=api,
        manager=DeviceManager(clock=lambda: 0.0, grace_seconds=1.0, chance=random.Random(1)),  # noqa: S311 - the choice is to be repeatable
        authority=b"",
        environ={},
        now=lambda: NOW,
    )
    return PodWorker(node, pod_of())


async def test_a_pod_runs_until_it_is_deleted(tmp_path):
    api = Api()
    worker = worker_of(tmp_path, api)
    running = asyncio.create_task(worker.run())
    status = await api.follow("Running")
    assert status["startTime"] == "2026-01-02T03:04:05Z"
    assert status["containerStatuses"][0]["state"] == {"running": {"startedAt": "2026-01-02T03:04:05Z"}}
    assert status["containerStatuses"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}
    worker.update(pod_of(deletion_timestamp="2026-01-02T03:04:06Z", deletion_grace_period_seconds=1))
    status = await api.follow("Succeeded")
    assert status["containerStatuses"][0]["state"]["terminated"]["finishedAt"] == "2026-01-02T03:04:05Z"
    await asyncio.wait_for(running, DEADLINE)


async def test_a_condition_that_another_changed_is_written_again(tmp_path):
    api = Api()
    worker = worker_of(tmp_path, api)
    running = asyncio.create_task(worker.run())
    written = {each["type"]: each["status"] for each in (await api.follow("Running"))["conditions"]}
    assert written["Ready"] == "True"
    worker.update(pod_of(PodCondition(type=kind, status=status) for kind, status in written.items()))
    await asyncio.sleep(0.2)
    assert api.statuses.empty()
    seen = {**written, "Ready": "False"}
    worker.update(pod_of(PodCondition(type=kind, status=status) for kind, status in seen.items()))
    again = await api.follow("Running")
    assert {each["type"]: each["status"] for each in again["conditions"]} == written
    running.cancel()
    await asyncio.wait({running}, timeout=DEADLINE)


async def test_the_exit_annotation_makes_a_pod_fail(tmp_path):
    api = Api()
    worker = worker_of(tmp_path, api)
    running = asyncio.create_task(worker.run())
    await api.follow("Running")
    worker.update(pod_of(annotations={EXIT_ANNOTATION: "1"}))
    status = await api.follow("Failed")
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 1
    await asyncio.wait_for(running, DEADLINE)


async def test_a_pod_that_vanished_gets_no_further_status(tmp_path):
    api = Api()
    worker = worker_of(tmp_path, api)
    running = asyncio.create_task(worker.run())
    await api.follow("Running")
    worker.mark_vanished()
    await asyncio.wait_for(running, DEADLINE)
    assert api.statuses.empty()


async def test_a_node_that_ends_leaves_the_status_of_its_pods(tmp_path):
    api = Api()
    running = asyncio.create_task(worker_of(tmp_path, api).run())
    await api.follow("Running")
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=DEADLINE)
    assert [task.cancelled() for task in done] == [True]
    assert api.statuses.empty()
