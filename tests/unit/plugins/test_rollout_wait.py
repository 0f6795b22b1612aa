"""The module rollout_wait: what it requests and returns."""

from __future__ import annotations

import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import rollout_wait

from accelkit.errors import WaitError
from accelkit.install.rollouts import Rollout

WORKLOAD = {"kind": "Deployment", "name": "w", "namespace": "ns"}

pytestmark = pytest.mark.usefixtures("kubeconfig")


@pytest.fixture
def calls(monkeypatch):
    """The waits that the module requested."""
    calls = []

    async def wait(_api, *where, seconds, lease):
        calls.append((where, seconds, lease))
        return Rollout(2, 2, observed=True, holder=lease and "w-1")

    monkeypatch.setattr(rollout_wait, "wait_for_rollout", wait)
    return calls


def test_without_a_lease_the_module_returns_no_holder(run_module, calls):
    answer = run_module(rollout_wait, WORKLOAD)
    assert (answer["changed"], answer["pods"], "holder" in answer) == (False, 2, False)
    assert calls == [(("Deployment", "ns", "w"), 120, "")]


@pytest.mark.parametrize("check", [False, True])
def test_with_a_lease_the_module_returns_its_holder(run_module, calls, check):
    answer = run_module(rollout_wait, {**WORKLOAD, "lease": "l", "timeout": 7}, check=check)
    assert (answer["changed"], answer["pods"], answer["holder"]) == (False, 2, "w-1")
    assert calls == [(("Deployment", "ns", "w"), 7, "l")]


def test_a_lease_that_is_not_held_in_time_is_a_failure_that_the_action_can_show(run_module, monkeypatch):
    async def wait(*_where, seconds, lease):
        raise WaitError(seconds, f"a pod to hold Lease {lease}", "no pod holds it", next_step="look at the logs")

    monkeypatch.setattr(rollout_wait, "wait_for_rollout", wait)
    answer = run_module(rollout_wait, {**WORKLOAD, "lease": "l", "timeout": 7})
    assert (answer["failed"], answer["msg"]) == (True, "after 7 s no pod holds it; look at the logs")
    assert answer["waiting_for"] == "a pod to hold Lease l"
