import asyncio
import json
import os
import signal
import time

import pytest
from http_service import PATIENCE_SECONDS, Pki
from ports import free_port
from support.waiting import until

from accelkit.errors import ApiError, ConfigurationError
from accelkit.extender import service
from accelkit.extender.service import LISTS
from accelkit.kube.paths import NODES, PODS
from accelkit.serving.tls import Listen


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_service_binds_pods_until_signal(cluster, number, caplog):
    caplog.set_level("INFO")
    async with cluster.extender() as running:
        cluster.pod()
        assert await cluster.filter() == ["n"]
        # No pod waited when it began: it binds at once.
        assert await cluster.bind() == ""
        await cluster.uses(4)
        os.kill(os.getpid(), number)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await running
    assert f"extender is listening on 127.0.0.1:{cluster.at.port}" in caplog.messages
    assert caplog.messages[-1] == "extender stopped"


async def test_service_is_ready_after_nodes_and_pods_were_listed(cluster):
    for path in (NODES, PODS):
        gate = cluster.hold(path)
        async with cluster.extender(ready=False):
            await until(lambda path=path: sum(request.path == path for request in cluster.api.requests))
            await asyncio.sleep(0.05)
            await cluster.readiness("the cluster has not been read yet")
            gate.set()
            await cluster.readiness("ok")
        cluster.api.requests.clear()


async def test_service_applies_watched_node_and_pod_changes(cluster):
    async with cluster.extender():
        assert await cluster.filter() == ["n"]
        cluster.api.show(NODES, "MODIFIED", {"metadata": {"name": "n"}})
        await cluster.fits(False)
        cluster.api.show(NODES, "MODIFIED", cluster.node())
        pod = cluster.pod("q", 6)
        cluster.api.show(PODS, "ADDED", pod | {"spec": pod["spec"] | {"nodeName": "n"}})
        await cluster.metric("accelkit_pods", "1.0")


async def test_service_is_not_ready_while_api_server_is_unreachable(cluster, monkeypatch):
    monkeypatch.setattr("accelkit.extender.readiness.MAX_SILENCE_SECONDS", 0.0)
    monkeypatch.setattr("accelkit.kube.heartbeat._SECONDS", 0.05)
    async with cluster.extender(ready=False):
        await cluster.readiness("ok")
        cluster.api.fail(ApiError("no answer"), times=None)
        await cluster.readiness("the API server has been unreachable for 0 s")
        cluster.api.recover()
        await cluster.readiness("ok")


async def test_first_binding_waits_for_former_extender_if_pods_are_pending(cluster, monkeypatch):
    monkeypatch.setattr(service, "PREDECESSOR_SECONDS", 1.0)
    cluster.pod()
    began = time.monotonic()
    async with cluster.extender():
        assert await cluster.bind() == ""
    assert time.monotonic() - began >= 1.0


async def test_holding_missing_from_relist_is_looked_up_and_released(cluster):
    async with cluster.extender():
        cluster.pod()
        assert await cluster.bind() == ""
        cluster.api.objects.pop(f"{PODS.removesuffix('/pods')}/namespaces/d/pods/p")
        cluster.api.show(PODS, "ERROR", {"metadata": {}, "code": 410, "message": "too old"})
        await cluster.uses(0)


async def test_lost_watch_event_is_repaired_by_comparison(cluster, monkeypatch):
    monkeypatch.setattr("accelkit.extender.pod_comparison._LEAST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("accelkit.extender.pod_comparison._WATCH_LAG_SECONDS", 0.05)
    async with cluster.extender():
        cluster.pod()
        assert await cluster.bind() == ""
        await cluster.uses(4)
        # Another pod is bound to the node, and no watch reports it.
        pod = cluster.pod("q", 6)
        cluster.api.store(PODS, pod | {"spec": pod["spec"] | {"nodeName": "n"}})
        await cluster.metric("accelkit_pods", "2.0")
        await cluster.shows("/metrics", lambda text: "accelkit_extender_lost_pod_events_total 0.0" not in text)


async def test_unhealthy_card_config_maps_are_read_only_for_aliyun_dialect(cluster):
    map_ = {"metadata": {"name": "unhealthy-gpu-n"}, "data": {"gpus": "a"}}
    cluster.api.store(LISTS, map_)
    async with cluster.extender():
        assert await cluster.filter() == ["n"]
    assert not any("configmaps" in request.path for request in cluster.api.requests)
    async with cluster.extender(dialects=("native", "aliyun")):
        await cluster.fits(False)
        cluster.api.show("/api/v1/namespaces/kube-system/configmaps", "DELETED", map_)
        await cluster.fits(True)


async def test_inspect_answers_in_the_format_of_an_enabled_dialect(cluster):
    async with cluster.extender(dialects=("native", "gcushare")):
        _, answer = await cluster.ask("/gcushare-scheduler/inspect/n")
        assert json.loads(answer)["nodes"][0]["totalGCU"] == 16


async def refuses(port):
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return True
    writer.close()
    return False


async def test_probes_are_served_without_tls_on_their_own_port(cluster):
    port = free_port()
    async with cluster.extender(probes=Listen("127.0.0.1", port)):
        assert (await cluster.ask("/healthz", port=port))[0] == 200
        assert (await cluster.ask("/inspect", port=port))[0] == 404
        assert (await cluster.ask("/inspect"))[0] == 200
    await until(lambda: refuses(port))


async def test_waiting_pods_are_woken_if_enabled(cluster):
    pod = cluster.pod(memory=16)
    async with cluster.extender(wake=True):
        await cluster.metric('accelkit_extender_wakes_total{result="written"}', "0.0")
        cluster.api.show(PODS, "ADDED", pod)
        cluster.api.show(NODES, "MODIFIED", cluster.node("a", "b"))
        path = f"{NODES}/n"
        await until(lambda: "accelkit.io/freed-at" in cluster.api.objects[path]["metadata"]["annotations"])
        await cluster.metric('accelkit_extender_wakes_total{result="written"}', "1.0")


async def test_wake_metrics_are_absent_if_waking_is_disabled(cluster):
    async with cluster.extender():
        await asyncio.sleep(0.1)
        assert "accelkit_extender_wakes_total{" not in (await cluster.ask("/metrics"))[1]


@pytest.mark.parametrize("part", ["probes", "listen"])
async def test_failing_listener_stops_the_service_with_its_error(cluster, tmp_path, part):
    pki = Pki(tmp_path)
    pki.files.key.write_text("nonsense")
    broken = Listen("127.0.0.1", free_port(), pki.files)
    if part == "listen":
        cluster.at = broken
    async with cluster.extender(ready=False, **({"probes": broken} if part == "probes" else {})) as running:
        with pytest.raises(ConfigurationError, match="PEM"):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await running
