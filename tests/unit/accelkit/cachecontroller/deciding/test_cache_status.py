"""What a status says of nodes, namespaces and pods; right counts with several caches."""

from __future__ import annotations

import msgspec
import pytest

from accelkit.cachecontroller.claim_pods import ObservedPod
from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import NamedObject, ObservedNode
from accelkit.cachecontroller.deciding.former_digests import GRACE_SECONDS, FormerDigests
from accelkit.cachecontroller.deciding.judgement import Judgement, Question, Refused, decide
from accelkit.cachecontroller.deciding.node_claims import NodeClaims
from accelkit.cachecontroller.deciding.status import assemble_status, choose_delivery
from accelkit.gkm.conditions import ConditionType, Reason, state
from accelkit.gkm.objects import (
    Cache,
    CacheMeta,
    CacheNode,
    CachePod,
    CacheSpec,
    CacheStatus,
    Delivery,
    NodeCacheStatus,
    NodeStatus,
    PvcStatus,
    ReportMeta,
)
from accelkit.kernelcache.formats import ImageLabels
from accelkit.model.object_meta import ObjectMeta

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
ASKED = Question("q.io/a/b:v1", "p")
READY = PvcStatus("pv", "kernels", "", "Agent", [state(ConditionType.READY, Reason.READY, holds=True)])


def cache(*namespaces: str) -> Cache:
    meta = CacheMeta(name="kernels", namespace="" if namespaces else "team")
    spec = CacheSpec(image=ASKED.image, workload_namespaces=namespaces)
    return Cache(meta, spec, CacheStatus(resolved_digest=DIGEST, delivery="node"))


def entry(ready: bool = True, pods: int = 0, **conditions: tuple[bool | None, str]) -> NodeCacheStatus:
    told = [state(ConditionType.READY, Reason.READY if ready else Reason.PENDING, holds=ready)]
    told += [
        state(ConditionType[name.upper()], reason, f"says {reason}", holds=holds)
        for name, (holds, reason) in conditions.items()
    ]
    return NodeCacheStatus(conditions=told, pods=[CachePod("team", f"p{number}") for number in range(pods)])


@pytest.fixture
def seen():
    objects = ClusterState(lambda _key: None, clock=lambda: 1000.0)
    objects.replace_namespaces([NamedObject(ObjectMeta(name="team"))])
    objects.replace_nodes([ObservedNode(ObjectMeta(name=f"n{number}")) for number in range(4)])
    return objects


def report(seen: ClusterState, node: str, *, name: str = "kernels", namespace: str = "team", **entries) -> None:
    known = next(
        (each for each in seen.list_reports(Cache(CacheMeta(namespace=namespace))) if each.metadata.name == node), None
    )
    caches = {
        **(known.status.caches if known else {}),
        name: {DIGEST if key == "now" else OTHER: value for key, value in entries.items()},
    }
    seen.take_report_event(
        "MODIFIED", CacheNode(ReportMeta(name=node, namespace=namespace), NodeStatus(node, caches=caches))
    )


def assemble(of: Cache, seen: ClusterState, states=None, judgement: Judgement | None = None) -> CacheStatus:
    decision = decide(of, ASKED, judgement or Judgement(ASKED, 1000.0, DIGEST), now=1000.0, again_seconds=600)
    decided = msgspec.structs.replace(of, status=msgspec.structs.replace(decision.status, delivery="node"))
    return assemble_status(decided, decision, {"team": READY} if states is None else states, seen, seen.nodes)


def holds(status: CacheStatus, type_: str) -> tuple[str, str]:
    return next(((each.status, each.reason) for each in status.conditions if each.type == type_), ("", ""))


def test_cache_is_ready_as_soon_as_one_node_is_ready(seen):
    assert holds(assemble(cache(), seen), "Ready") == ("False", "Pending")
    report(seen, "n0", now=entry(ready=False, extracted=(False, "Extracting"), compatible=(True, "Compatible")))
    assert holds(assemble(cache(), seen), "Ready") == ("False", "Extracting")
    report(seen, "n1", now=entry(extracted=(True, "Extracted"), compatible=(True, "Compatible")))
    status = assemble(cache(), seen)
    assert holds(status, "Ready") == ("True", "Ready")
    assert holds(status, "Degraded")[0] == "False"
    assert holds(status, "Extracted") == ("True", "Extracted")
    assert status.conditions[0].type == "Ready"


def test_incompatible_node_among_compatible_nodes_is_not_failure(seen):
    report(seen, "n0", now=entry(ready=False, compatible=(False, "Incompatible")))
    status = assemble(cache(), seen)
    assert holds(status, "Ready") == ("False", "Incompatible")
    report(seen, "n1", now=entry(compatible=(True, "Compatible")))
    status = assemble(cache(), seen)
    assert holds(status, "Ready")[0] == "True"
    assert holds(status, "Compatible") == ("True", "PartlyCompatible")
    assert holds(status, "Degraded")[0] == "False"
    assert status.counts.node_error_cnt == 0


def test_unknown_compatibility_differs_from_missing_report(seen):
    def message() -> str:
        return next(each.message for each in assemble(cache(), seen).conditions if each.type == "Compatible")

    report(seen, "n0", now=entry(ready=False, compatible=(None, "Pending")))
    assert (holds(assemble(cache(), seen), "Compatible"), message()) == (
        ("Unknown", "Pending"),
        "no node has checked the compatibility yet",
    )
    report(seen, "n1", now=entry(compatible=(None, "DriverUnknown")))
    assert holds(assemble(cache(), seen), "Compatible") == ("Unknown", "DriverUnknown")
    assert message() == "nodes with unknown compatibility: 1; n1: says DriverUnknown"
    report(seen, "n2", now=entry(compatible=(True, "Compatible")))
    assert holds(assemble(cache(), seen), "Compatible") == ("True", "Compatible")


def test_recorded_variables_are_read_from_labels_or_node_reports(seen):
    of = cache()
    of.status.recorded_environment = {"VLLM_USE_V1": "1"}
    labels = ImageLabels(format="vllm")
    again = assemble(of, seen, judgement=Judgement(ASKED, 1000.0, DIGEST, labels=labels))
    assert again.recorded_environment == {"VLLM_USE_V1": "1"}
    assert assemble(of, seen, judgement=Judgement(ASKED, 1000.0, OTHER, labels=labels)).recorded_environment == {}
    assert assemble(cache(), seen).recorded_environment == {}
    report(seen, "n1", now=entry(), then=entry())
    told = {"VLLM_USE_V1": "1", "VLLM_KEY": "[redacted]", "PATH": "/", "VLLM_LONG": "x" * 257}
    report(seen, "n2", now=msgspec.structs.replace(entry(), recorded_environment=told))
    assert assemble(cache(), seen).recorded_environment == {"VLLM_USE_V1": "1"}
    # A former digest was captured under others.
    report(seen, "n2", now=entry(), then=msgspec.structs.replace(entry(), recorded_environment=told))
    assert assemble(cache(), seen).recorded_environment == {}
    labels = ImageLabels(format="vllm", variables={"VLLM_USE_V1": False})
    found = assemble(cache(), seen, judgement=Judgement(ASKED, 1000.0, DIGEST, labels=labels))
    assert found.recorded_environment == {"VLLM_USE_V1": "0"}


def test_full_node_degrades_cache(seen):
    report(seen, "n0", now=entry(extracted=(True, "Extracted")))
    report(seen, "n1", now=entry(ready=False, extracted=(False, "NodeFull")))
    status = assemble(cache(), seen)
    assert holds(status, "Ready") == ("False", "FailedOnNodes")
    assert holds(status, "Degraded") == ("True", "FailedOnNodes")
    assert "node n1: says NodeFull" in status.conditions[0].message
    assert status.counts.node_error_cnt == 1


def test_retrying_node_does_not_degrade_cache(seen):
    report(
        seen, "n0", now=NodeCacheStatus(conditions=[state(ConditionType.READY, Reason.RETRYING, "no API", holds=False)])
    )
    status = assemble(cache(), seen)
    assert holds(status, "Ready") == ("False", "Retrying")
    assert status.conditions[0].message == "node n0: no API"
    assert holds(status, "Degraded")[0] == "False"
    report(seen, "n1", now=entry(extracted=(True, "Extracted")))
    assert holds(assemble(cache(), seen), "Ready")[0] == "True"


def test_counts_include_only_this_cache_and_existing_nodes(seen):
    report(seen, "n0", now=entry(pods=2), before=entry(pods=1))
    report(seen, "n0", name="another", now=entry(pods=7))
    report(seen, "n1", now=entry())
    report(seen, "n2", name="another", now=entry(pods=7))
    report(seen, "gone", now=entry(pods=5))
    report(seen, "n3", namespace="other", now=entry(pods=5))
    counts = assemble(cache(), seen).counts
    assert (counts.node_cnt, counts.node_in_use_cnt, counts.node_not_in_use_cnt) == (2, 1, 1)
    assert (counts.pod_running_cnt, counts.pod_outdated_cnt) == (2, 1)
    assert holds(assemble(cache(), seen), "Outdated") == ("True", "Outdated")
    seen.take_node_event("DELETED", ObservedNode(ObjectMeta(name="n0")))
    assert assemble(cache(), seen).counts.node_cnt == 1
    meta = {"name": "p", "namespace": "team", "uid": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    volumes = [{"persistentVolumeClaim": {"claimName": "kernels"}}]
    seen.take_pod_event("ADDED", msgspec.convert({"metadata": meta, "spec": {"volumes": volumes}}, ObservedPod))
    assert assemble(cache(), seen).counts.pod_deleting_cnt == 1


def test_misses_on_one_node_make_cache_ineffective(seen):
    report(seen, "n0", now=entry(effective=(True, "Hits")))
    assert holds(assemble(cache(), seen), "Effective") == ("True", "Hits")
    report(seen, "n1", now=entry(effective=(False, "Misses")))
    assert holds(assemble(cache(), seen), "Effective") == ("False", "Misses")


def test_cluster_cache_requires_existing_namespaces(seen):
    report(seen, "n0", namespace="", now=entry())
    status = assemble(cache("team", "later"), seen)
    assert holds(status, "Ready")[0] == "True"
    assert status.pvc_status["later"].conditions[0].reason == "NamespaceMissing"
    assert holds(assemble(cache("later"), seen, {}), "Ready") == ("False", "NamespaceMissing")
    of = cache("team")
    of.spec.workload_namespaces = ()
    assert holds(assemble(of, seen, {}), "Ready") == ("False", "NoWorkloadNamespaces")


def test_claim_conflict_or_refusal_makes_cache_not_ready(seen):
    report(seen, "n0", now=entry())
    taken = PvcStatus(conditions=[state(ConditionType.READY, Reason.CLAIM_EXISTS, "theirs", holds=False)])
    status = assemble(cache(), seen, {"team": taken})
    assert holds(status, "Ready") == ("False", "ClaimExists")
    assert holds(status, "Degraded") == ("True", "ClaimExists")
    status = assemble(cache(), seen, {}, Judgement(ASKED, 1.0, DIGEST, Refused("NoSignatures", "none")))
    assert holds(status, "Ready") == ("False", "NoSignatures")
    assert status.pvc_status == {}


def test_pending_verification_keeps_rest_of_status(seen):
    of = cache()
    report(seen, "n0", now=entry())
    of.status = assemble(of, seen)
    away = Judgement(Question(ASKED.image, "other"), 1.0)
    decision = decide(of, Question(ASKED.image, "new"), away, now=1000.0, again_seconds=1)
    status = assemble_status(of, decision, {}, seen, seen.nodes)
    assert holds(status, "Ready") == ("True", "Ready")
    assert holds(status, "Verified") == ("Unknown", "Pending")
    assert status.pvc_status == of.status.pvc_status


@pytest.mark.parametrize(
    ("spec", "chosen"),
    [
        ({}, Delivery.NODE),
        ({"access_modes": ("ReadOnlyMany",)}, Delivery.NODE),
        ({"access_modes": ("ReadWriteOnce", "ReadOnlyMany"), "storage_class_name": "nfs"}, Delivery.NAMESPACE),
        ({"access_modes": ("ReadWriteOnce",), "storage_class_name": "standard"}, Delivery.NODE),
        ({"delivery": Delivery.IMAGE}, Delivery.IMAGE),
    ],
)
def test_default_delivery_is_chosen_from_spec(spec, chosen):
    assert choose_delivery(Cache(CacheMeta(name="c"), CacheSpec(**spec))) is chosen


def test_former_digest_is_kept_during_use_and_grace_period(seen):
    of = cache()
    of.status.previous_digests = [OTHER]
    former = FormerDigests()
    assert former.select(of, seen, 0.0, [NodeClaims()]) == ([OTHER], GRACE_SECONDS)
    report(seen, "n0", before=entry(pods=1))
    assert former.select(of, seen, 500.0, [NodeClaims()]) == ([OTHER], 0.0)
    report(seen, "n0", before=entry())
    assert former.select(of, seen, 600.0, [NodeClaims()]) == ([OTHER], GRACE_SECONDS)
    assert former.select(of, seen, 600.0 + GRACE_SECONDS, [NodeClaims()]) == ([], 0.0)
