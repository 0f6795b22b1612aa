from __future__ import annotations

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
def pair(server, clock):
    return Candidate(server, "a", clock), Candidate(server, "b", clock)


async def test_the_first_creates_the_lease_and_leads_while_it_renews(server, pair, clock):
    a, b = pair
    for _ in range(20):
        assert await a.step()
        assert not await b.step()
        clock[0] += 2
    assert a.told == ["acquired"]
    assert b.elector.holder == "a"
    assert server.objects[LEASE]["spec"]["leaseTransitions"] == 0


async def test_who_dies_is_followed_when_the_lease_was_silent_for_its_duration(server, pair, clock):
    a, b = pair
    await a.step()
    await b.step()
    clock[0] += LEASE_SECONDS - 0.1
    assert not await b.step()
    clock[0] += 0.1
    assert await b.step()
    assert server.objects[LEASE]["spec"]["holderIdentity"] == "b"
    assert server.objects[LEASE]["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_cannot_renew_ends_by_its_clock_before_anybody_may_follow(server, pair, clock):
    a, b = pair
    await a.step()
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


async def test_a_leader_that_slept_through_a_succession_does_not_lead(pair, clock):
    a, b = pair
    await a.step()
    await b.step()
    clock[0] += LEASE_SECONDS
    assert await b.step()
    assert not a.elector.leads()
    assert not await a.step()
    assert a.told == ["acquired", "lost"]


async def test_a_released_lease_is_taken_at_once(server, pair):
    a, b = pair
    await a.step()
    assert not await b.step()
    await a.elector.release()
    assert server.objects[LEASE]["spec"]["holderIdentity"] == ""
    assert not a.elector.leads()
    assert await b.step()


async def test_a_lease_taken_away_ends_the_term_at_once(server, pair, clock):
    a, _ = pair
    await a.step()
    server.objects[LEASE]["spec"]["holderIdentity"] = "z"
    clock[0] += 2
    assert not await a.step()
    assert a.told == ["acquired", "lost"]
    assert a.elector.holder == "z"


def test_what_was_sent_within_a_term_has_taken_effect_when_a_successor_binds():
    # Sent at the last moment, on its way and then written for no longer than the binder allows each.
    assert TERM_SECONDS + 2 * PREDECESSOR_SECONDS <= LEASE_SECONDS + PREDECESSOR_SECONDS


@pytest.mark.parametrize("text", ["", "a", "/a", "a/", "a/b/c"])
def test_what_is_no_lease(text):
    with pytest.raises(ConfigurationError, match="is no Lease"):
        parse_lease(text)


def test_a_lease_is_namespace_and_name():
    assert parse_lease("d/l") == NAME
