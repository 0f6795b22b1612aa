"""Evictions when the term of the leader ends, and when responses are lost."""

import pytest
from evicting_cluster import Evicting

from accelkit.errors import ApiError
from accelkit.ledger.holding import ShareStage


async def test_no_further_pod_is_evicted_after_the_term_ended():
    cluster = Evicting()
    for number in range(2):
        cluster.pod(f"p{number}", 4, 1, "a")
    cluster.pod("q", 8, 20, "b")

    def lose(request):
        if request.path.endswith("/eviction") and "dryRun" not in request.body["deleteOptions"]:
            cluster.leads = False

    cluster.api.before.append(lose)
    assert len(await cluster.look(cluster.pod("high", 8, 10))) == 1


@pytest.mark.parametrize("status", [0, 504])
async def test_claim_remains_if_response_to_last_eviction_is_lost(status):
    cluster = Evicting()
    for number in range(2):
        cluster.pod(f"p{number}", 4, 1, "a")
    cluster.pod("q", 8, 20, "b")

    def lose(request):
        if (
            request.path.endswith("/eviction")
            and "dryRun" not in request.body["deleteOptions"]
            and len(cluster.evicted) == 2
        ):
            raise ApiError("no answer", status=status)

    cluster.api.after.append(lose)
    assert await cluster.look(cluster.pod("high", 8, 10)) == ["p0", "p1"]
    held = cluster.ledger.find_holding("uid-high")
    assert held is not None
    assert held.stage is ShareStage.CLAIMED
