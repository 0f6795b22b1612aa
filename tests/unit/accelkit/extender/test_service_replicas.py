"""The whole extender as one of several replicas."""

import asyncio
import json
import os
import signal
from dataclasses import replace

import pytest
from extender_cluster import LEASES, REPLICA
from http_service import PATIENCE_SECONDS, Pki, connected
from ports import free_port
from support.pods import build_pod
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.extender import leadership, service
from accelkit.extender.endpoint import LeaderEndpoint
from accelkit.extender.leadership import Replica
from accelkit.kube.paths import PODS, build_pod_path
from accelkit.model.assignment import Share
from accelkit.model.keys import FENCED_AT_ANNOTATION
from accelkit.serving.tls import Listen

# The memory of card `a`.
CAPACITY = 16


async def test_lease_holder_filters_and_binds(cluster):
    async with cluster.extender(replica=REPLICA):
        await cluster.metric("accelkit_leader", "1.0")
        assert await cluster.filter() == ["n"]
        assert await cluster.bind() == ""
        assert cluster.holder == "us"


async def test_replica_without_lease_serves_inspect_and_refuses_bind(cluster):
    cluster.lease("other")
    async with cluster.extender(replica=REPLICA):
        await cluster.metric("accelkit_leader", "0.0")
        assert await cluster.bind() == 503
        await cluster.uses(0)
    assert cluster.holder == "other"


async def test_new_leader_lists_pods_again_before_binding(cluster, monkeypatch):
    monkeypatch.setattr(service, "TAKEOVER_SECONDS", 0.0)
    leases = cluster.hold(LEASES, "POST")
    async with cluster.extender(replica=REPLICA):
        pods = cluster.hold(PODS)
        leases.set()
        await cluster.metric("accelkit_leader", "1.0")
        cluster.pod()
        assert await cluster.bind() == "the pods are being read again"
        pods.set()
        await cluster.bound()


async def test_new_leader_binds_after_waiting_pods_are_fenced(cluster):
    cluster.pod()
    cluster.lease("", 1)
    async with cluster.extender(replica=REPLICA):
        patched = cluster.hold("/pods/p", "PATCH")
        await cluster.metric("accelkit_leader", "1.0")
        binding = asyncio.create_task(cluster.bind())
        await until(lambda: [each for each in cluster.api.requests if each.method == "PATCH"])
        assert not cluster.bindings
        patched.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await binding == ""
    assert FENCED_AT_ANNOTATION in cluster.api.objects[build_pod_path("d", "p")]["metadata"]["annotations"]


@pytest.mark.parametrize("fenced", [True, False])
async def test_resumed_leader_fences_again_only_if_fencing_was_incomplete(cluster, monkeypatch, caplog, fenced):
    monkeypatch.setattr(leadership, "_TERM_SECONDS", 0.3)
    monkeypatch.setattr(leadership, "_RETRY_SECONDS", 0.05)
    cluster.pod()
    cluster.lease("", 1)
    patched = cluster.hold("/pods/p", "PATCH")
    if fenced:
        patched.set()
    async with cluster.extender(replica=REPLICA):
        await until(lambda: _count_patches(cluster) == 1)
        cluster.api.fail(ApiError("no answer"), "PUT", path=LEASES, times=None)
        await until(lambda: "stopped leading" in caplog.text)
        patched.set()
        cluster.api.recover()
        await cluster.metric("accelkit_leader", "1.0")
        await cluster.bound()
    assert (_count_patches(cluster) == 1) is fenced


@pytest.mark.parametrize("fenced", [True, False])
async def test_reservation_from_earlier_term_is_released_before_binds(cluster, monkeypatch, fenced):
    monkeypatch.setattr(service, "TAKEOVER_SECONDS", 0.3)
    async with cluster.extender(replica=REPLICA):
        await cluster.metric("accelkit_leader", "1.0")
        await cluster.pod_is_fit()

        def lose_connection(request):
            if request.path.endswith("/binding"):
                cluster.api.fail(ApiError("no answer", status=0), path="/pods/p", times=None)

        cluster.api.before.append(lose_connection)
        assert await cluster.bind()
        cluster.api.before.remove(lose_connection)
        await cluster.uses(4)
        cluster.lease("other")
        await cluster.metric("accelkit_leader", "0.0")
        # The other leader assigns the whole card, because it does not know the reservation of this replica.
        cluster.api.store(PODS, build_pod("q", memory=CAPACITY, assigned={"c": (Share("a", CAPACITY),)}, nodeName="n"))
        cluster.api.recover()
        sent = len(cluster.bindings)
        cluster.lease("", 1 if fenced else 15)
        await cluster.metric("accelkit_leader", "1.0")
        await until(cluster.bind, accept=lambda error: "memory" in str(error))
        await cluster.uses(CAPACITY)
        assert len(cluster.bindings) == sent


def _count_patches(cluster):
    return sum(each.method == "PATCH" for each in cluster.api.requests)


async def test_pods_are_not_fenced_after_a_leader_of_an_earlier_version(cluster, monkeypatch):
    # Its Bindings name no version.
    monkeypatch.setattr(service, "TAKEOVER_SECONDS", 0.3)
    cluster.pod()
    cluster.lease("", 15)
    async with cluster.extender(replica=REPLICA):
        await cluster.metric("accelkit_leader", "1.0")
        await cluster.bound()
    assert not [each for each in cluster.api.requests if each.method == "PATCH"]


async def test_former_leader_closes_its_connections(cluster):
    async with cluster.extender(replica=REPLICA):
        await cluster.metric("accelkit_leader", "1.0")
        async with connected(cluster.at) as connection:
            await connection.ask("GET", "/healthz")
            cluster.lease("other")
            assert await connection.closed()
        await cluster.metric("accelkit_leader", "0.0")


async def test_stopping_leader_releases_lease_after_running_bindings(cluster, monkeypatch):
    # A renewal that falls into the release wins.
    monkeypatch.setattr(leadership, "_RETRY_SECONDS", 8.0)
    monkeypatch.setattr(leadership, "_TERM_SECONDS", 20.0)
    # The probes end first.
    async with cluster.extender(replica=REPLICA, probes=Listen("127.0.0.1", free_port())) as running:
        await cluster.metric("accelkit_leader", "1.0")
        await cluster.pod_is_fit()
        gate = cluster.hold("/binding", "POST")
        binding = asyncio.create_task(cluster.bind())
        await until(lambda: cluster.bindings)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        assert not running.done()
        assert cluster.holder == "us"
        gate.set()
        assert await binding == ""
        await until(running.done)
        assert cluster.holder == ""


@pytest.mark.parametrize("status", [0, 500])
async def test_stopping_leader_keeps_lease_if_a_binding_outcome_is_unknown(cluster, status):
    async with cluster.extender(replica=REPLICA) as running:
        await cluster.metric("accelkit_leader", "1.0")
        await cluster.pod_is_fit()
        trouble = ApiError("trouble", status=status)

        def begin(request):
            if request.path.endswith("/binding"):
                cluster.api.fail(trouble, path="/pods/p", times=None)

        cluster.api.before.append(begin)
        assert await cluster.bind()
        os.kill(os.getpid(), signal.SIGTERM)
        await until(running.done)
    assert cluster.holder == "us"


async def test_read_port_serves_requests_with_reviewed_tokens(cluster, tmp_path):
    pki = Pki(tmp_path)
    at = Listen("127.0.0.1", free_port(), replace(pki.files, client_ca=None))
    cluster.api.store("/api/v1/namespaces/d/services", {"metadata": {"name": "s", "uid": "u"}})
    known = {"authenticated": True, "user": {"username": "ann"}, "audiences": ["accelkit.io/inspect"]}
    access = "/apis/authorization.k8s.io/v1/namespaces/d/localsubjectaccessreviews"
    cluster.api.reviews = {
        "/apis/authentication.k8s.io/v1/tokenreviews": lambda _: {"status": known},
        access: lambda request: {"status": {"allowed": request.body["spec"]["user"] == "ann"}},
    }
    endpoint = LeaderEndpoint("d", "s", "10.0.0.1", cluster.at.port, "us", at.port)
    async with cluster.extender(replica=Replica(REPLICA.lease, "us", endpoint), reads=at):
        for headers, status in (([], 401), (["X-Accelkit-Token: t"], 200)):
            async with connected(at, pki.client("")) as connection:
                answered, _, body = await connection.ask("GET", "/inspect/n", b"", headers or ["X-None: x"])
            assert answered == status
        assert json.loads(body)["nodes"][0]["name"] == "n"
        await until(lambda: "/api/v1/namespaces/d/endpoints/s" in cluster.api.objects)


async def test_inspect_without_read_port_reviews_no_tokens(cluster):
    async with cluster.extender(replica=REPLICA):
        assert (await cluster.ask("/inspect"))[0] == 200
    assert not [request for request in cluster.api.requests if "reviews" in request.path]
