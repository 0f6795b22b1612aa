"""A cache whose claims are on nodes, and what becomes of its plans."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from accelkit.cachecontroller.claim_pods import ObservedPod
from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import (
    CLAIMS,
    VOLUMES,
    ClaimReference,
    NamedObject,
    ObjectName,
    ObservedObject,
)
from accelkit.cachecontroller.deciding.node_claims import NodeClaims
from accelkit.cachecontroller.delivery import DeliveryPlan
from accelkit.gkm import names
from accelkit.gkm.objects import Cache, CacheMeta, CacheSpec, CacheStatus

DIGEST, OTHER = "sha256:" + "a" * 64, "sha256:" + "b" * 64
KEY = "team/kernels"
LINK = ObjectName(CLAIMS, "kernels", "team")
PINNED = ObjectName(CLAIMS, names.name_pinned_claim(KEY, DIGEST), "team")
MODE = NodeClaims()
NUMBERS = itertools.count()


def cache(**spec: Any) -> Cache:
    status = CacheStatus(resolved_digest=DIGEST, mount_path="/cache", cache_bytes=3 << 20, delivery="node")
    return Cache(CacheMeta(name="kernels", namespace="team", uid="u"), CacheSpec(image="q.io/a/b:v1", **spec), status)


def show() -> ClusterState:
    """A namespace, and nothing in it."""
    objects = ClusterState(lambda _key: None, clock=lambda: 1000.0)
    objects.replace_namespaces([msgspec.convert({"metadata": {"name": "team"}}, NamedObject)])
    return objects


def carry_out(seen: ClusterState, plan: DeliveryPlan) -> None:
    """What a patient API server and kube-controller-manager make of a plan."""
    for each in plan.delete:
        gone = seen.find(each.name)
        assert gone is not None
        seen.take_object_event(each.name.kind)("DELETED", gone)
    for patch in plan.patch:
        found = seen.find(patch.name)
        assert found is not None
        body = patch.body
        if "metadata" in body:
            found.metadata.labels = {**(found.metadata.labels or {}), **body["metadata"]["labels"]}
            found.metadata.annotations = {**(found.metadata.annotations or {}), **body["metadata"]["annotations"]}
            found.metadata.owner_references = body["metadata"].get("ownerReferences", found.metadata.owner_references)
        if "spec" in body:
            find_reference(found)["uid"] = body["spec"]["claimRef"]["uid"]
    for name, manifest in plan.create:
        metadata = {**manifest["metadata"], "namespace": name.namespace, "uid": f"uid-{next(NUMBERS)}"}
        seen.put(name, msgspec.convert({"metadata": metadata, "spec": manifest["spec"]}, ObservedObject))
    bind(seen)


def find_reference(volume: ObservedObject) -> ClaimReference:
    """The claim that a volume is for."""
    reference = volume.spec["claimRef"]
    assert reference is not None
    return reference


def bind(seen: ClusterState) -> None:
    for _, volume in seen.list_all(VOLUMES):
        reference = find_reference(volume)
        claim = seen.find(ObjectName(CLAIMS, reference["name"], reference["namespace"]))
        if claim is not None and claim.metadata.uid == reference["uid"]:
            claim.status["phase"] = "Bound"


def settle(
    seen: ClusterState, of: Cache, mode: NodeClaims = MODE, made: dict[ObjectName, Any] | None = None
) -> DeliveryPlan:
    """Carry out plans until there is nothing to do; what they create goes into `made`, whole."""
    for _ in range(6):
        plan = mode.plan(of, seen)
        if made is not None:
            made |= dict(plan.create)
        if not (plan.create or plan.patch or plan.delete):
            return plan
        carry_out(seen, plan)
    pytest.fail("it does not come to rest")


def mount(seen: ClusterState, claim: str, name: str = "user", **spec: Any) -> None:
    volumes = [{"name": "files", "persistentVolumeClaim": {"claimName": claim}}]
    pod = {"metadata": {"name": name, "namespace": "team", "uid": name}, "spec": {"volumes": volumes, **spec}}
    seen.take_pod_event("ADDED", msgspec.convert(pod, ObservedPod))


def ready(plan: DeliveryPlan, namespace: str = "team") -> tuple[str, str]:
    condition = plan.states[namespace].conditions[0]
    return condition.status, condition.reason


def wait(claims: Iterable[ObservedObject], volumes: Iterable[ObservedObject], phase: str) -> None:
    for each in claims:
        each.status["phase"] = "Pending"
    for each in volumes:
        each.status["phase"] = phase
