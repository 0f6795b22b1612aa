from __future__ import annotations

import msgspec
import pytest

from accelkit.errors import ApiError, ConfigurationError
from accelkit.extender.binder import PREDECESSOR_SECONDS
from accelkit.kube.lease import LEASE_SECONDS, TERM_SECONDS, Elector, LeaseName, parse_lease

NAME = LeaseName("d", "l")


class Server:
    """One Lease under the API server's rules: a write needs the version that is there."""

    def __init__(self):
        self.lease = None
        self.version = 0
        self.away = False

    def _check(self):
        if self.away:
            raise ApiError("no answer")

    def _store(self, body):
        self.version += 1
        self.lease = msgspec.to_builtins(body)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return msgspec.json.encode(self.lease)

    async def get(self, _):
        self._check()
        if self.lease is None:
            raise ApiError("not found", status=404)
        return msgspec.json.encode(self.lease)

    async def post(self, _, body):
        self._check()
        if self.lease is not None:
            raise ApiError("there already", status=409)
        return self._store(body)

    async def put(self, _, body):
        self._check()
        if msgspec.to_builtins(body)["metadata"]["resourceVersion"] != str(self.version):
            raise ApiError("conflict", status=409)
        return self._store(body)


class Candidate:
    def __init__(self, server, name, clock):
        self.told = []
        acquired, lost = lambda: self.told.append("acquired"), lambda: self.told.append("lost")
        self.elector = Elector(server, NAME, name, on_acquired=acquired, on_lost=lost, clock=lambda: clock[0])

    async def step(self):
        await self.elector.step()
        return self.elector.leads()


@pytest.fixture
def clock():
    return [1000.0]


@pytest.fixture
def server():
    return Server()


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
    assert server.lease["spec"]["leaseTransitions"] == 0


async def test_who_dies_is_followed_when_the_lease_was_silent_for_its_duration(server, pair, clock):
    a, b = pair
    await a.step()
    await b.step()
    clock[0] += LEASE_SECONDS - 0.1
    assert not await b.step()
    clock[0] += 0.1
    assert await b.step()
    assert server.lease["spec"]["holderIdentity"] == "b"
    assert server.lease["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_cannot_renew_ends_by_its_clock_before_anybody_may_follow(server, pair, clock):
    a, b = pair
    await a.step()
    await b.step()
    server.away = True
    clock[0] += TERM_SECONDS - 0.1
    assert await a.step()
    clock[0] += 0.1
    # Also where nothing of it runs.
    assert not a.elector.leads()
    await a.step()
    assert a.told == ["acquired", "lost"]
    server.away = False
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
    assert server.lease["spec"]["holderIdentity"] == ""
    assert not a.elector.leads()
    assert await b.step()


async def test_a_lease_taken_away_ends_the_term_at_once(server, pair, clock):
    a, _ = pair
    await a.step()
    server.lease["spec"]["holderIdentity"] = "z"
    server.version += 1
    server.lease["metadata"]["resourceVersion"] = str(server.version)
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
