"""The module rollout_wait: what it requests and returns."""

import pytest
from ansible_collections.accelkit.kubernetes.plugins.modules import rollout_wait

from accelkit.errors import WaitError
from accelkit.install.rollouts import Rollout

WORKLOAD = {"kind": "Deployment", "name": "w", "namespace": "ns"}


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(("lease", "holder"), [("", ""), ("l", "w-1")], ids=["no lease", "lease"])
def test_lease_holder_is_returned_when_lease_is_given(run_module, stub, lease, holder, check):
    asked = stub(rollout_wait, "wait_for_rollout", Rollout(2, 2, observed=True, holder=holder))
    answer = run_module(rollout_wait, {**WORKLOAD, "timeout": 7, **({"lease": lease} if lease else {})}, check=check)
    assert (answer["changed"], answer["pods"], answer.get("holder", "")) == (False, 2, holder)
    assert asked == [(("Deployment", "ns", "w"), {"seconds": 7, "lease": lease})]


def test_lease_timeout_fails_with_reason_and_waiting_state(run_module, stub):
    late = WaitError(120, "a pod to hold Lease l", "no pod holds it", next_step="look at the logs")
    asked = stub(rollout_wait, "wait_for_rollout", late)
    answer = run_module(rollout_wait, {**WORKLOAD, "lease": "l"})
    assert asked[0][1]["seconds"] == 120
    assert (answer["failed"], answer["msg"]) == (True, "after 120 s no pod holds it; look at the logs")
    assert answer["waiting_for"] == "a pod to hold Lease l"
