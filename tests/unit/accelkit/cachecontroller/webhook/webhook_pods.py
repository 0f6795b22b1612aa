"""Pods and caches of the webhook's tests."""

from __future__ import annotations

import copy
import json
from typing import Any

from accelkit.cachecontroller.webhook.copying import PREFIX
from accelkit.cachecontroller.webhook.mutation import Mutation, Tools, mutate
from accelkit.gkm.conditions import ConditionType, state
from accelkit.gkm.objects import Cache, CacheMeta, CacheSpec, CacheStatus, PvcStatus

DIGEST = "sha256:" + "a1" * 32
FORMER = "sha256:" + "b2" * 32
CLAIM, PINNED, OUTDATED = "kernels", "kernels-" + "a1" * 6, "kernels-" + "b2" * 6
IMAGE = "registry.example/accelkit:1"
NAMESPACE = "models"
Object = dict[str, Any]


def make_cache(name: str = CLAIM, namespace: str = NAMESPACE, **fields: Any) -> Cache:
    """A cache that is verified and ready; `spec`, `meta` and fields of its status can be given."""
    spec, meta = fields.pop("spec", {}), fields.pop("meta", {})
    status = {
        "resolved_digest": DIGEST,
        "mount_path": "/cache",
        "cache_bytes": 1 << 20,
        "conditions": [state(ConditionType.VERIFIED, "Verified", holds=True)],
        "delivery": "node",
        "pvc_status": {NAMESPACE: PvcStatus(pvc_name=name)},
        **fields,
    }
    return Cache(
        metadata=CacheMeta(name=name, namespace=namespace, **meta),
        spec=CacheSpec(image="registry.example/cache:v1", **spec),
        status=CacheStatus(**status),
    )


def mount(path: str = "/cache", volume: str = "files", **fields: Any) -> Object:
    """A mount of a volume."""
    return {"name": volume, "mountPath": path, **fields}


def make_pod(*mounts: Object, claim: str = CLAIM, volume: Object | None = None, **fields: Any) -> Object:
    """A pod whose container `main` has these mounts of the volume `files`; `annotations`, `init` and spec's fields."""
    meta = {"name": "pod", **({"annotations": fields.pop("annotations")} if "annotations" in fields else {})}
    main = {"name": "main", "image": "workload", **fields.pop("main", {})}
    if mounts:
        main["volumeMounts"] = list(mounts)
    spec = {"containers": [main, *fields.pop("beside", [])], **fields}
    if "init" in spec:
        spec["initContainers"] = spec.pop("init")
    if claim:
        spec["volumes"] = [volume or {"name": "files", "persistentVolumeClaim": {"claimName": claim}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def change(pod: Object, *caches: Cache, tools: Tools | None = None) -> Mutation:
    """What becomes of a pod; it is confirmed that the pod itself was left alone, and that doing it again is nothing."""
    tools = tools or Tools(IMAGE)
    before = copy.deepcopy(pod)
    done = mutate(pod, NAMESPACE, caches, tools)
    assert pod == before
    if not done.refusal:
        again = mutate(apply(done, pod), NAMESPACE, caches, tools)
        assert (again.patch, again.refusal) == ((), "")
        assert set(again.warnings) <= set(done.warnings)
    return done


def apply(done: Mutation, pod: Object) -> Object:
    """The pod after its patch, of which each operation replaces a part of the spec, or changes an annotation."""
    assert not done.refusal
    after = copy.deepcopy(pod)
    for step in done.patch:
        *place, key = (each.replace("~1", "/").replace("~0", "~") for each in step["path"].split("/")[1:])
        target = after
        for each in place:
            target = target[each]
        if step["op"] == "remove":
            del target[key]
        else:
            assert step["op"] == "add"
            target[key] = copy.deepcopy(step["value"])
    return after


def changed(pod: Object, *caches: Cache, tools: Tools | None = None) -> Object:
    """The pod as it is created."""
    return apply(change(pod, *caches, tools=tools), pod)


def copies(pod: Object) -> list[Object]:
    """The init containers that fill private copies."""
    return [each for each in pod["spec"].get("initContainers", []) if each["name"].startswith(PREFIX)]


def review(pod: Object, **fields: Any) -> bytes:
    """An AdmissionReview, as the API server sends it when a pod is created."""
    request = {"uid": "u-1", "namespace": NAMESPACE, "operation": "CREATE", "kind": {"kind": "Pod"}, "object": pod}
    whole = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**request, **fields}}
    return json.dumps(whole, separators=(",", ":")).encode()


def volumes(pod: Object) -> dict[str, Object]:
    """The volumes of a pod by name, without their names."""
    return {each["name"]: {k: v for k, v in each.items() if k != "name"} for each in pod["spec"].get("volumes", [])}


def writable_claims(pod: Object) -> list[str]:
    """The claims that a pod can write to."""
    spec = pod["spec"]
    containers = [*spec.get("containers", []), *spec.get("initContainers", [])]
    mounts = [each for container in containers for each in container.get("volumeMounts", [])]
    writable = {each["name"] for each in mounts if not each.get("readOnly")}
    claims = {
        each["name"]: each["persistentVolumeClaim"] for each in spec["volumes"] if "persistentVolumeClaim" in each
    }
    return [each["claimName"] for name, each in claims.items() if name in writable and not each.get("readOnly")]
