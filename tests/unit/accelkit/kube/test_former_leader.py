"""The duration of the previous leader's Lease, which decides whether waiting pods can be fenced."""

import pytest
from fake_api.server import FakeApi

from accelkit.errors import ApiError
from accelkit.kube.lease import Elector, LeaseName

LEASES = "/apis/coordination.k8s.io/v1/namespaces/d/leases"


def elector(server, name, clock):
    return Elector(
        server,
        LeaseName("d", "l"),
        name,
        on_acquired=lambda: None,
        on_lost=lambda: None,
        lease_seconds=3,
        term_seconds=2.0,
        retry_seconds=0.5,
        inherit_seconds=11.0,
        clock=lambda: clock[0],
    )


def may_fence(each):
    """As Leadership.may_fence."""
    return each.former_seconds is not None and each.former_seconds <= 3


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("missing", [False, True])
async def test_former_seconds_survive_lost_response_to_acquisition(lost, missing):
    server, clock = FakeApi(), [1000.0]
    if not missing:
        # A leader of an earlier version, whose Bindings name no version, crashed 15 s ago.
        spec = {"holderIdentity": "old", "leaseDurationSeconds": 15, "leaseTransitions": 0}
        server.store(LEASES, {"metadata": {"name": "l", "namespace": "d"}, "spec": spec})
    us = elector(server, "us", clock)
    if not missing:
        await us.try_acquire_or_renew()
        clock[0] += 15
    if lost:
        server.fail(ApiError("no answer"), "POST" if missing else "PUT", answered=True)
    await us.try_acquire_or_renew()
    clock[0] += 0.5
    await us.try_acquire_or_renew()
    assert us.leads()
    assert not may_fence(us)


async def test_former_seconds_survive_a_successor_that_led_briefly():
    """A candidate leads for a moment after a leader of an earlier version; then another candidate leads."""
    server, clock = FakeApi(), [1000.0]
    spec = {"holderIdentity": "old", "leaseDurationSeconds": 15, "leaseTransitions": 0}
    server.store(LEASES, {"metadata": {"name": "l", "namespace": "d"}, "spec": spec})
    a, b = elector(server, "a", clock), elector(server, "b", clock)
    await a.try_acquire_or_renew()
    clock[0] += 15
    await a.try_acquire_or_renew()
    assert a.leads()
    assert not may_fence(a)
    await a.release()
    await b.try_acquire_or_renew()
    assert b.leads()
    # Bindings from the earlier version may still take effect.
    assert not may_fence(b)
