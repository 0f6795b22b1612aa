import asyncio

import pytest
from fake_api.server import FakeApi
from support.waiting import until

from accelkit.errors import ApiError, ConfigurationError, NotLeadingError
from accelkit.extender import leadership
from accelkit.extender.bindings import SEND_SECONDS, WRITE_SECONDS
from accelkit.extender.endpoint import LeaderEndpoint
from accelkit.extender.leadership import Leadership, Replica, parse_replica
from accelkit.kube.lease import LeaseName

LEASES = "/apis/coordination.k8s.io/v1/namespaces/d/leases"
LEASE = f"{LEASES}/l"
SLICE = "/apis/discovery.k8s.io/v1/namespaces/d/endpointslices/s"
NAME = LeaseName("d", "l")


def parse(**changed):
    given = {"lease": "d/l", "identity": "pod-a", "advertise": "10.0.0.1", "service": "s", **changed}
    return parse_replica(32766, **given)


def test_replica_options_set_lease_service_and_read_port():
    assert parse() == Replica(NAME, "pod-a", LeaderEndpoint("d", "s", "10.0.0.1", 32766, "pod-a"))
    assert parse(read_port=4000).endpoint == LeaderEndpoint("d", "s", "10.0.0.1", 32766, "pod-a", 4000)


@pytest.mark.parametrize(("given", "address"), [("10.0.0.1", "10.0.0.1"), ("FD00:0::1", "fd00::1")])
def test_advertised_address_is_normalized(given, address):
    assert parse(advertise=given).endpoint.address == address


@pytest.mark.parametrize("service", [None, ""])
def test_address_is_optional_without_service(service):
    assert parse(service=service, advertise=None) == Replica(NAME, "pod-a")


@pytest.mark.parametrize("lease", [None, ""])
def test_extender_without_lease_is_not_a_replica(lease):
    assert parse(lease=lease, service=None) is None


@pytest.mark.parametrize(
    ("missing", "sentence", "next_step"),
    [
        ({"lease": None}, "--service requires --lease", "set --lease NAMESPACE/NAME"),
        ({"identity": None}, "--lease requires a name for this replica", "set --identity or POD_NAME"),
        ({"identity": ""}, "--lease requires a name for this replica", "set --identity or POD_NAME"),
        ({"advertise": None}, "--service requires an IP address of this replica, not ''", "set --advertise or POD_IP"),
        (
            {"advertise": "here"},
            "--service requires an IP address of this replica, not 'here'",
            "set --advertise or POD_IP",
        ),
        ({"lease": "l"}, "'l' is not a valid Lease name", "use NAMESPACE/NAME, such as accelkit/accelkit-extender"),
    ],
)
def test_missing_or_conflicting_replica_options_are_errors_with_next_step(missing, sentence, next_step):
    with pytest.raises(ConfigurationError, match=sentence) as refused:
        parse(**missing)
    assert refused.value.next_step == next_step


class Cluster:
    """Replicas on one API server."""

    def __init__(self):
        self.api, self.running = FakeApi(), []
        self.api.store("/api/v1/namespaces/d/services", {"metadata": {"name": "s", "uid": "uid-s"}})

    def start(self, name, address=""):
        """Start a replica; `told` is what it was told, `task` runs it."""
        endpoint = LeaderEndpoint("d", "s", address, 1) if address else None
        told = []
        replica = Leadership(
            self.api,
            Replica(NAME, name, endpoint),
            on_acquired=lambda: told.append("acquired"),
            on_lost=lambda: told.append("lost"),
        )
        replica.told, replica.task = told, asyncio.create_task(replica.run())
        self.running.append(replica.task)
        return replica

    @property
    def holder(self):
        return self.api.objects[LEASE]["spec"]["holderIdentity"]

    def usurp(self, name="z"):
        self.api.objects[LEASE]["spec"]["holderIdentity"] = name

    @property
    def address(self):
        return self.api.objects[SLICE]["endpoints"][0]["addresses"][0] if SLICE in self.api.objects else None


@pytest.fixture
async def cluster(monkeypatch):
    monkeypatch.setattr(leadership, "_RETRY_SECONDS", 0.01)
    cluster = Cluster()
    yield cluster
    for task in cluster.running:
        task.cancel()
    await asyncio.gather(*cluster.running, return_exceptions=True)


async def test_only_one_replica_leads_and_its_follower_names_the_leader(cluster):
    a = cluster.start("a")
    assert not a.leads()
    with pytest.raises(NotLeadingError, match="this replica does not bind pods; no replica holds the Lease"):
        a.check()
    await until(a.leads)
    a.check()
    b = cluster.start("b")
    await asyncio.sleep(0.05)
    assert (a.told, b.told, b.leads()) == (["acquired"], [], False)
    with pytest.raises(NotLeadingError, match="this replica does not bind pods; a holds the Lease"):
        b.check()


async def test_service_address_follows_the_leader(cluster):
    a = cluster.start("a", "10.0.0.1")
    b = cluster.start("b", "10.0.0.2")
    await until(lambda: cluster.address == "10.0.0.1")
    await a.release()
    assert a.told == ["acquired", "lost"]
    a.task.cancel()
    await until(lambda: cluster.address == "10.0.0.2")
    assert (a.leads(), b.leads(), b.told) == (False, True, ["acquired"])


async def test_leader_without_service_writes_no_endpoint_slice(cluster):
    a = cluster.start("a")
    await until(a.leads)
    await asyncio.sleep(0.02)
    cluster.usurp()
    await until(lambda: a.told == ["acquired", "lost"])
    assert {request.path for request in cluster.api.requests} == {LEASE, LEASES}


async def test_replica_that_lost_its_lease_stops_writing_the_slice(cluster, monkeypatch):
    monkeypatch.setattr("accelkit.extender.endpoint._CHECK_SECONDS", 0.001)
    a = cluster.start("a", "10.0.0.1")
    await until(lambda: cluster.address)
    cluster.usurp()
    await until(lambda: a.told == ["acquired", "lost"])
    del cluster.api.objects[SLICE]
    await asyncio.sleep(0.05)
    assert cluster.address is None
    assert not a.leads()


async def test_stopped_replica_stops_writing_the_slice_and_keeps_its_address(cluster, monkeypatch):
    monkeypatch.setattr("accelkit.extender.endpoint._CHECK_SECONDS", 0.001)
    a = cluster.start("a", "10.0.0.1")
    await until(lambda: cluster.address)
    a.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await a.task
    assert cluster.address == "10.0.0.1"
    count = len(cluster.api.requests)
    await asyncio.sleep(0.02)
    assert len(cluster.api.requests) == count


async def test_stopping_replica_waits_for_its_last_request(cluster):
    ended = []

    async def linger(request):
        if "endpointslices" in request.path:
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.01)
                ended.append(request)

    cluster.api.before.append(linger)
    a = cluster.start("a", "10.0.0.1")
    await until(lambda: any("endpointslices" in request.path for request in cluster.api.requests))
    a.task.cancel()
    await asyncio.gather(a.task, return_exceptions=True)
    assert len(ended) == 1


async def test_failing_service_write_does_not_end_leadership(cluster):
    cluster.api.fail(ApiError("denied", status=403), path="services", times=None)
    a = cluster.start("a", "10.0.0.1")
    await until(lambda: any("services" in request.path for request in cluster.api.requests))
    assert a.leads()


def test_leadership_term_is_shorter_than_lease_and_longer_than_a_lost_renewal():
    term, retry = leadership._TERM_SECONDS, leadership._RETRY_SECONDS
    assert term + 1 <= leadership.LEASE_SECONDS
    assert 3 * retry < term
    # Where nothing is fenced: a Binding leaves, or takes effect, at the latest after these times.
    assert term + SEND_SECONDS + WRITE_SECONDS < leadership.LEASE_SECONDS + leadership.TAKEOVER_SECONDS
