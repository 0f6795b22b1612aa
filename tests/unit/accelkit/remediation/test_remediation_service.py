"""The parts of the service together: it leads, reads, acts, tells how it is, and gives the Lease up."""

import asyncio

import aiohttp
import msgspec
import pytest
from node_api import NODES, NodeApi
from ports import free_port
from remediation_cluster import make_card
from support.waiting import until

from accelkit.kube.lease import parse_lease
from accelkit.model.card import Health
from accelkit.remediation.deciding.settings import Mode, RemediationSettings
from accelkit.remediation.service import ServiceOptions, _Service
from accelkit.serving.tls import Listen
from accelkit.vendors.dialects import load_dialects

LEASE = "/apis/coordination.k8s.io/v1/namespaces/accelkit/leases/remediation"


def make_service(api, mode, port=None):
    options = ServiceOptions(
        settings=RemediationSettings(mode=mode, trip_share=1.0),
        namespace="accelkit",
        lease=parse_lease("accelkit/remediation"),
        identity="me",
        agent="accelkit-node-agent",
        dialects=load_dialects(["native"]),
        pause_seconds=0.01,
        metrics=Listen("127.0.0.1", port) if port else None,
    )
    return _Service(options, api, api)


async def run_for_a_while(api, mode):
    """Run a service until it has read the nodes, and a little longer."""
    stop = asyncio.Event()
    running = asyncio.create_task(make_service(api, mode).run(stop))
    await until(lambda: any(each.path == NODES for each in api.done))
    await asyncio.sleep(0.2)
    stop.set()
    await asyncio.wait_for(running, 60)


@pytest.fixture
def api():
    found = NodeApi()
    found.put_node("n", make_card("GPU-0"))
    found.fail_card("n", "GPU-0", health=Health.UNHEALTHY, fault="xid 79 at 1.0")
    return found


async def test_leader_remediates_serves_metrics_and_releases_lease_on_shutdown(api):
    port, stop = free_port(), asyncio.Event()
    running = asyncio.create_task(make_service(api, Mode.ON, port).run(stop))
    await until(lambda: "AcceleratorHealthy" in str(api.objects[f"{NODES}/n"]["status"]))
    async with aiohttp.ClientSession() as session:
        shown = {}
        for page in ("metrics", "healthz", "readyz", "version", "other"):
            async with session.get(f"http://127.0.0.1:{port}/{page}") as answer:
                shown[page] = answer.status, await answer.text()
    assert [shown[page][0] for page in ("healthz", "readyz", "version", "other")] == [200, 200, 200, 404]
    for line in ("accelkit_leader 1.0", "accelkit_remediation_nodes 1.0", "accelkit_remediation_breaker_open 0.0"):
        assert line in shown["metrics"][1]
    stop.set()
    await asyncio.wait_for(running, 60)
    assert api.objects[LEASE]["spec"]["holderIdentity"] == ""


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.DRY_RUN])
async def test_only_lease_and_events_are_written_unless_mode_is_on(api, mode):
    await run_for_a_while(api, mode)
    assert LEASE in api.objects
    written = {each.path.split("/")[-2] if each.method != "POST" else each.path.split("/")[-1] for each in api.writes}
    assert written == ({"leases", "events"} if mode is Mode.DRY_RUN else {"leases"})


async def test_replica_without_lease_does_nothing(api):
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 15}
    meta = {"name": "remediation", "namespace": "accelkit"}
    api.store(LEASE.rpartition("/")[0], {"metadata": meta, "spec": spec})
    await run_for_a_while(api, Mode.ON)
    assert api.writes == []
    assert msgspec.json.decode(await api.get(LEASE))["spec"] == spec
