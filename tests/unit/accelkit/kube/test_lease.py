import asyncio

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError, ConfigurationError
from accelkit.extender.bindings import PREDECESSOR_SECONDS
from accelkit.kube.lease import LEASE_SECONDS, TERM_SECONDS, Elector, LeaseName, parse_lease
from accelkit.kube.paths import build_leases_path, build_object_path

NAME = LeaseName("d", "l")
LEASE = build_object_path(build_leases_path("d"), "l")


class Candidate:
    def __init__(self, server, name, clock):
        self.told = []
        acquired, lost = lambda: self.told.append("acquired"), lambda: self.told.append("lost")
        self.elector = Elector(server, NAME, name, on_acquired=acquired, on_lost=lost, clock=lambda: clock[0])

    async def step(self):
        await self.elector.try_acquire_or_renew()
        return self.elector.leads()


@pytest.fixture
def clock():
    return [1000.0]


@pytest.fixture
def server():
    return FakeApi()


@pytest.fixture
async def a(server, clock):
    """The candidate that leads at first."""
    found = Candidate(server, "a", clock)
    await found.step()
    return found


@pytest.fixture
def b(server, clock):
    return Candidate(server, "b", clock)


async def test_first_candidate_creates_lease_and_leads_while_renewing(server, a, b, clock):
    for _ in range(20):
        assert await a.step()
        assert not await b.step()
        clock[0] += 2
    assert a.told == ["acquired"]
    assert b.elector.holder == "a"
    assert server.objects[LEASE]["spec"]["leaseTransitions"] == 0


async def test_lost_response_to_renewal_does_not_end_term(server, a, b, clock):
    server.fail(ApiError("lost"), "PUT", answered=True)
    clock[0] += TERM_SECONDS - 1
    assert await a.step()
    # The record on the server is newer than the one that it knows, and it is its own.
    assert await a.step()
    clock[0] += TERM_SECONDS - 1
    assert a.elector.leads()
    assert not await b.step()
    assert a.told == ["acquired"]


async def test_successor_acquires_lease_after_lease_duration(server, a, b, clock):
    await b.step()
    before = dict(server.objects[LEASE]["spec"])
    clock[0] += LEASE_SECONDS - 0.1
    assert not await b.step()
    clock[0] += 0.1
    assert await b.step()
    now = server.objects[LEASE]["spec"]
    assert (now["holderIdentity"], now["leaseTransitions"]) == ("b", 1)
    assert now["acquireTime"] > before["acquireTime"]


async def test_leader_that_cannot_renew_ends_term_before_lease_expires(server, a, b, clock):
    await b.step()
    server.fail(ApiError("no answer"), times=None)
    clock[0] += TERM_SECONDS - 0.1
    assert await a.step()
    clock[0] += 0.1
    # Also where nothing of it runs.
    assert not a.elector.leads()
    await a.step()
    assert a.told == ["acquired", "lost"]
    server.recover()
    assert not await b.step()


async def test_term_is_resumed_only_if_no_other_candidate_led_in_between(server, a, b, clock):
    assert not a.elector.resumed
    server.fail(ApiError("no answer"), times=None)
    clock[0] += TERM_SECONDS
    assert not await a.step()
    server.recover()
    assert await a.step()
    assert (a.elector.resumed, a.elector.former_seconds) == (True, None)
    await b.step()
    clock[0] += LEASE_SECONDS
    assert await b.step()
    assert not await a.step()
    await a.step()
    clock[0] += LEASE_SECONDS
    assert await a.step()
    assert (a.elector.resumed, a.elector.former_seconds) == (False, LEASE_SECONDS)


async def test_new_process_with_same_name_does_not_resume_term(server, a, clock):
    again = Candidate(server, "a", clock)
    assert await again.step()
    assert not again.elector.resumed


async def test_leader_suspended_during_succession_does_not_lead(a, b, clock):
    await b.step()
    clock[0] += LEASE_SECONDS
    assert await b.step()
    assert not a.elector.leads()
    assert not await a.step()
    assert a.told == ["acquired", "lost"]


async def test_released_lease_is_acquired_immediately(server, a, b):
    assert not await b.step()
    await a.elector.release()
    assert server.objects[LEASE]["spec"]["holderIdentity"] == ""
    assert not a.elector.leads()
    assert await b.step()


async def test_renewal_in_progress_does_not_prevent_release(server, a, b, monkeypatch):
    put, begun, answered = server.put, asyncio.Event(), asyncio.Event()

    async def put_late(*arguments, **options):
        answer = await put(*arguments, **options)
        if not begun.is_set():
            begun.set()
            await answered.wait()
        return answer

    monkeypatch.setattr(server, "put", put_late)
    renewal = asyncio.create_task(a.step())
    await begun.wait()
    release = asyncio.create_task(a.elector.release())
    await asyncio.sleep(0)
    answered.set()
    await asyncio.gather(renewal, release)
    assert server.objects[LEASE]["spec"]["holderIdentity"] == ""
    assert await b.step()
    assert a.told == ["acquired", "lost"]


async def test_candidate_does_not_reacquire_lease_after_release(server, a):
    await a.elector.release()
    assert not await a.step()
    assert server.objects[LEASE]["spec"]["holderIdentity"] == ""


async def test_failed_release_of_lease_ends_term(server, a):
    server.fail(ApiError("no answer"), times=None)
    await a.elector.release()
    assert not a.elector.leads()
    assert a.told == ["acquired", "lost"]


async def test_lease_acquired_by_another_holder_ends_term(server, a, clock):
    server.objects[LEASE]["spec"]["holderIdentity"] = "z"
    clock[0] += 2
    assert not await a.step()
    assert a.told == ["acquired", "lost"]
    assert a.elector.holder == "z"


def test_requests_of_predecessor_complete_before_successor_binds():
    # Sent at the last moment, on its way and then written for no longer than the binder allows each.
    assert TERM_SECONDS + 2 * PREDECESSOR_SECONDS <= LEASE_SECONDS + PREDECESSOR_SECONDS


@pytest.mark.parametrize("text", ["", "a", "/a", "a/", "a/b/c"])
def test_invalid_lease_name_is_rejected(text):
    with pytest.raises(ConfigurationError, match="is not a valid Lease name"):
        parse_lease(text)


def test_lease_name_has_namespace_and_name():
    assert parse_lease("d/l") == NAME


async def test_lease_is_written_in_client_go_format(server, a, clock):
    (created,) = server.writes
    assert (created.method, created.path) == ("POST", build_leases_path("d"))
    lease = server.objects[LEASE]
    assert (lease["apiVersion"], lease["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert (lease["metadata"]["name"], lease["metadata"]["namespace"]) == ("l", "d")
    spec = dict(lease["spec"])
    assert spec["acquireTime"] == spec["renewTime"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("a", 15, 0)
    clock[0] += 2
    await a.step()
    renewed = server.objects[LEASE]["spec"]
    assert (renewed["acquireTime"], renewed["leaseTransitions"]) == (spec["acquireTime"], 0)
    assert renewed["renewTime"] > spec["renewTime"]
    assert [request.method for request in server.requests] == ["GET", "POST", "PUT"]


async def test_released_lease_lasts_one_second_without_holder(server, a, b):
    await a.elector.release()
    spec = server.objects[LEASE]["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("", 1, 0)
    assert (a.told, a.elector.holder) == (["acquired", "lost"], None)
    requests = len(server.requests)
    await a.elector.release()
    await b.elector.release()
    assert len(server.requests) == requests


async def test_rejected_renewal_is_retried_without_reading_lease(server, a, clock):
    seen = len(server.requests)
    server.fail(ApiError("forbidden", status=403), "PUT")
    clock[0] += 2
    assert await a.step()
    assert [request.method for request in server.requests[seen:]] == ["PUT"]
    clock[0] += 2
    assert await a.step()
    assert a.told == ["acquired"]


@pytest.mark.parametrize("seconds", [29.9, 30.0])
async def test_lease_expires_after_its_stated_duration(server, a, b, clock, seconds):
    server.objects[LEASE]["spec"]["leaseDurationSeconds"] = 30
    await b.step()
    clock[0] += seconds
    assert await b.step() is (seconds >= 30)


async def test_lease_without_duration_uses_default_duration(server, a, b, clock):
    del server.objects[LEASE]["spec"]["leaseDurationSeconds"]
    del server.objects[LEASE]["spec"]["leaseTransitions"]
    await b.step()
    clock[0] += LEASE_SECONDS - 0.1
    assert not await b.step()
    clock[0] += 0.1
    assert await b.step()
    assert server.objects[LEASE]["spec"]["leaseTransitions"] == 1


def test_lease_holder_is_unknown_before_first_read(b):
    assert b.elector.holder is None
    assert not b.elector.leads()
