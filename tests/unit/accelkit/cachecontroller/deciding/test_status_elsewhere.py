"""What a status says where nodes hold no files: they judge their cards all the same, and pods are counted by claims."""

from __future__ import annotations

import msgspec
import pytest
from test_cache_status import ASKED, DIGEST, OTHER, READY, cache, holds, report, seen

from accelkit.cachecontroller.cluster_view import ClaimPod
from accelkit.cachecontroller.deciding.judgement import Judgement, Refused, decide
from accelkit.cachecontroller.deciding.node_views import list_hosts, view_nodes
from accelkit.cachecontroller.deciding.status import assemble_status
from accelkit.gkm.conditions import ConditionType, Reason, state
from accelkit.gkm.objects import CacheStatus, Delivery, NodeCacheStatus, PvcStatus

__all__ = ["seen"]
FITS = NodeCacheStatus(conditions=[state(ConditionType.COMPATIBLE, "Compatible", holds=True)])
MISFIT = NodeCacheStatus(conditions=[state(ConditionType.COMPATIBLE, "Incompatible", "gfx942", holds=False)])


def assemble(seen, states=None, users=None, *, delivery=Delivery.NAMESPACE, refused=None) -> CacheStatus:
    of = cache()
    decision = decide(of, ASKED, Judgement(ASKED, 1000.0, DIGEST, refused), now=1000.0, again_seconds=600)
    decided = msgspec.structs.replace(of, status=msgspec.structs.replace(decision.status, delivery=delivery.value))
    states = {"team": READY} if states is None else states
    return assemble_status(decided, decision, states, seen, seen.nodes, users=users or {})


@pytest.mark.parametrize("delivery", [Delivery.NAMESPACE, Delivery.IMAGE])
def test_all_conditions_are_set_for_each_delivery(seen, delivery):
    status = assemble(seen, delivery=delivery)
    assert {each.type for each in status.conditions} == {str(each) for each in ConditionType}
    assert holds(status, "Effective") == ("Unknown", "NotMeasured")
    assert holds(status, "Compatible") == ("Unknown", "Pending")
    assert holds(status, "Outdated") == ("False", "Current")


def test_compatibility_of_nodes_does_not_change_readiness(seen):
    report(seen, "n0", now=MISFIT)
    status = assemble(seen)
    assert holds(status, "Compatible") == ("False", "Incompatible")
    assert holds(status, "Ready") == ("True", "Ready")
    report(seen, "n1", now=FITS)
    status = assemble(seen)
    assert holds(status, "Compatible") == ("True", "PartlyCompatible")
    assert "incompatible: n0" in next(each.message for each in status.conditions if each.type == "Compatible")
    # No node has its files, so none is counted for that.
    assert (status.counts.node_cnt, status.counts.node_error_cnt) == (0, 0)
    views = view_nodes(cache(), DIGEST, seen.list_reports(cache()), seen.nodes)
    assert (list_hosts(views, by_node=False), list_hosts(views, by_node=True)) == (["n1"], [])


@pytest.mark.parametrize(
    ("states", "told"),
    [
        ({}, ("False", "Pending")),
        ({"team": READY}, ("True", "Extracted")),
        (
            {"team": PvcStatus(conditions=[state(ConditionType.READY, Reason.FILL_FAILED, "no", holds=False)])},
            ("False", "FillFailed"),
        ),
        (
            {"team": PvcStatus(conditions=[state(ConditionType.READY, Reason.EXTRACTING, "", holds=False)])},
            ("False", "Extracting"),
        ),
    ],
)
def test_extracted_condition_follows_namespace_states(seen, states, told):
    assert holds(assemble(seen, states), "Extracted") == told


def test_pods_of_former_digest_make_cache_outdated(seen):
    users = {OTHER: [ClaimPod("team", "old", node="n0")], DIGEST: [ClaimPod("team", "new", node="n0")]}
    status = assemble(seen, users=users)
    assert holds(status, "Outdated") == ("True", "Outdated")
    assert (status.counts.pod_running_cnt, status.counts.pod_outdated_cnt) == (1, 1)
    # What is refused says so too, and nothing of files that pods do not get.
    refused = assemble(seen, {}, users, refused=Refused("NoSignatures", "none"))
    assert holds(refused, "Outdated")[0] == "True"
    assert holds(refused, "Extracted") == ("", "")
