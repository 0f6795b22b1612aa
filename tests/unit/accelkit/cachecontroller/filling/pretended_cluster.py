"""A cluster of a few objects: carries out plans, and plays provisioners, Jobs and the binder of volumes."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import msgspec

from accelkit.cachecontroller.cluster_view import (
    CLAIMS,
    JOBS,
    VOLUMES,
    ClaimPod,
    Kind,
    ObjectName,
    ObservedObject,
    Refusal,
)
from accelkit.cachecontroller.delivery import DeliveryPlan, FillSettings
from accelkit.cachecontroller.filling.objects import CLASSES, DRIVERS, EVENTS, PODS, SNAPSHOT_CLASSES, SNAPSHOTS
from accelkit.gkm.objects import Cache, CacheNode
from accelkit.model.keys import CACHE_KEY_ANNOTATION, CACHE_NAME_LABEL

OURS = "accelkit"
SETTINGS = FillSettings(image="registry.example/accelkit@sha256:" + "a" * 64, namespace=OURS)
FIRST = "sha256:" + "1" * 64
SECOND = "sha256:" + "2" * 64


def cache_of(digest: str = FIRST, *, namespace: str = "team", **spec: Any) -> Cache:
    """A verified cache of delivery `namespace`."""
    image = "quay.io/acme/cache:v1"
    document = {
        "metadata": {"name": "llama", "namespace": namespace, "uid": "u"},
        "spec": {"image": image, "delivery": "namespace", **spec},
        "status": {"resolvedDigest": digest, "resolvedImage": image, "mountPath": "/cache", "cacheBytes": 1000},
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=Cache)


class Cluster:
    """What the API server shows, and what changes it.

    Args:
        refuses: words with which the provisioner refuses claims with these access modes; `*` refuses copies.
        csi: whether the provisioner is a CSI driver's.
        snapshots: whether there is a VolumeSnapshotClass of it.
    """

    def __init__(
        self, *, refuses: dict[str, str] | None = None, csi: bool = False, snapshots: bool = False, late: bool = False
    ) -> None:
        self.now = 1_000_000.0
        self.namespaces = {"team": False, "other": False, OURS: False}
        self.policies: dict[str, dict[str, Any]] = {"acme": {"images": ["quay.io/acme/**"], "signers": []}}
        self.objects: dict[ObjectName, dict[str, Any]] = {}
        self.pods: list[ClaimPod] = []
        self.refusals: dict[ObjectName, Refusal] = {}
        self.refuses = refuses or {}
        self.csi = csi
        self.late = late
        self._numbers = itertools.count(1)
        self.put(
            ObjectName(CLASSES, "fast"),
            {
                "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                "provisioner": "disk.example",
            },
        )
        if csi:
            self.put(ObjectName(DRIVERS, "disk.example"), {})
        if snapshots:
            self.put(ObjectName(SNAPSHOT_CLASSES, "snaps"), {"driver": "disk.example"})

    # What plans are shown

    def find(self, name: ObjectName) -> ObservedObject | None:
        found = self.objects.get(name)
        return _see(found) if found is not None and _is_watched(name.kind, found) else None

    def list_of_cache(self, kind: Kind, key: str) -> list[tuple[ObjectName, ObservedObject]]:
        return [
            (name, observed)
            for name, observed in self.list_all(kind)
            if (observed.metadata.annotations or {}).get(CACHE_KEY_ANNOTATION) == key
            and (observed.metadata.labels or {}).get(CACHE_NAME_LABEL)
        ]

    def list_all(self, kind: Kind) -> list[tuple[ObjectName, ObservedObject]]:
        return [(n, _see(o)) for n, o in self.objects.items() if n.kind == kind and _is_watched(kind, o)]

    def find_refusal(self, name: ObjectName) -> Refusal | None:
        return self.refusals.get(name)

    def list_pods(self, namespace: str) -> list[ClaimPod]:
        return [each for each in self.pods if each.namespace == namespace]

    def list_reports(self, cache: Cache) -> list[CacheNode]:
        del cache
        return []

    # What plans change

    def put(self, name: ObjectName, document: dict[str, Any]) -> None:
        document = copy.deepcopy(document)
        metadata = document.setdefault("metadata", {})
        metadata |= {"name": name.name, "namespace": name.namespace, "uid": f"uid-{next(self._numbers)}"}
        self.objects[name] = document

    def carry_out(self, plan: DeliveryPlan) -> int:
        """Do what a plan says; how much that was."""
        for name, body in plan.create:
            if name in self.objects:
                self.refusals[name] = Refusal("ClaimExists", "there is one of that name")
            else:
                self.put(name, dict(body))
        for patch in plan.patch:
            found = self.objects[patch.name]
            assert patch.uid in {"", found["metadata"]["uid"]}
            _merge(found, patch.body)
        for deletion in plan.delete:
            assert self.objects[deletion.name]["metadata"]["uid"] == deletion.uid
            self.delete(deletion.name)
        return len(plan.create) + len(plan.patch) + len(plan.delete)

    def delete(self, name: ObjectName) -> None:
        found = self.objects.pop(name)
        if name.kind == CLAIMS and (volume := found["spec"].get("volumeName")):
            held = self.objects.get(ObjectName(VOLUMES, volume))
            if held is not None and held["spec"]["claimRef"]["uid"] == found["metadata"]["uid"]:
                del self.objects[ObjectName(VOLUMES, volume)]

    # What other controllers do

    def turn(self) -> None:
        """Let provisioner, binder and Jobs do what they can do now."""
        for name, claim in [(n, o) for n, o in self.objects.items() if n.kind == CLAIMS]:
            self._provision(name, claim)
        for name, snapshot in [(n, o) for n, o in self.objects.items() if n.kind == SNAPSHOTS]:
            del name
            snapshot["status"] = {"readyToUse": True}
        for name, job in [(n, o) for n, o in self.objects.items() if n.kind == JOBS]:
            claim = self.objects[ObjectName(CLAIMS, read_claim(job), OURS)]
            if claim["spec"].get("volumeName"):
                self.end_job(name)

    def end_job(self, name: ObjectName, *, failed: str = "") -> None:
        job = self.objects[name]
        if (job.get("status") or {}).get("conditions"):
            return
        job["status"] = {
            "conditions": [
                {
                    "type": "Failed" if failed else "Complete",
                    "status": "True",
                    "lastTransitionTime": "1970-01-12T13:46:40Z",
                    "message": "the Job's own words",
                }
            ]
        }
        if failed:
            ended = {"state": {"terminated": {"exitCode": 1, "message": failed}}}
            self.put(
                ObjectName(PODS, f"{name.name}-x", OURS),
                {
                    "metadata": {
                        "labels": {
                            "batch.kubernetes.io/job-name": name.name,
                            **job["spec"]["template"]["metadata"]["labels"],
                        },
                        "annotations": job["spec"]["template"]["metadata"]["annotations"],
                    },
                    "status": {"containerStatuses": [ended]},
                },
            )

    def _provision(self, name: ObjectName, claim: dict[str, Any]) -> None:
        spec = claim["spec"]
        if volume := spec.get("volumeName"):
            held = self.objects.get(ObjectName(VOLUMES, volume))
            mine = held is not None and held["spec"]["claimRef"].get("uid") == claim["metadata"]["uid"]
            bound = (claim.get("status") or {}).get("phase") == "Bound"
            claim["status"] = {"phase": "Bound" if mine else "Lost" if bound or held is None else "Pending"}
            return
        key = ",".join(spec["accessModes"])
        words = self.refuses.get(f"copy {key}" if "dataSource" in spec else key)
        if words is not None:
            self.tell(name, words)
            return
        used = any(o for n, o in self.objects.items() if n.kind == JOBS and read_claim(o) == name.name)
        if self.late and not used:
            return
        volume = f"pvc-{claim['metadata']['uid']}"
        self.put(
            ObjectName(VOLUMES, volume),
            {
                "metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "disk.example"}},
                "spec": {
                    "capacity": {"storage": "1Gi"},
                    "accessModes": list(spec["accessModes"]),
                    "storageClassName": spec["storageClassName"],
                    "claimRef": {
                        "kind": "PersistentVolumeClaim",
                        "namespace": name.namespace,
                        "name": name.name,
                        "uid": claim["metadata"]["uid"],
                        "resourceVersion": "7",
                    },
                    **({"csi": {"driver": "disk.example"}} if self.csi else {"hostPath": {"path": f"/{volume}"}}),
                },
            },
        )
        spec["volumeName"] = volume
        claim["status"] = {"phase": "Bound"}

    def tell(self, claim: ObjectName, words: str, reason: str = "ProvisioningFailed") -> None:
        """Write an Event of a claim, once."""
        if any(o["message"] == words and o["involvedObject"]["name"] == claim.name for o in self.all(EVENTS).values()):
            return
        involved = {
            "kind": "PersistentVolumeClaim",
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": self.objects[claim]["metadata"]["uid"],
        }
        event = {"reason": reason, "message": words, "involvedObject": involved}
        self.put(ObjectName(EVENTS, f"event-{next(self._numbers)}", claim.namespace), event)

    # What tests ask

    def all(self, kind: Kind, namespace: str | None = None) -> dict[str, dict[str, Any]]:
        return {n.name: o for n, o in self.objects.items() if n.kind == kind and namespace in {None, n.namespace}}

    def use(self, claim: str, pod: str = "pod", namespace: str = "team") -> None:
        self.pods.append(ClaimPod(namespace, pod, frozenset({claim})))


def read_claim(job: dict[str, Any]) -> str:
    """The claim that a Job mounts."""
    return str(job["spec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"])


def _see(document: dict[str, Any]) -> ObservedObject:
    return msgspec.json.decode(msgspec.json.encode(document), type=ObservedObject)


def _is_watched(kind: Kind, document: dict[str, Any]) -> bool:
    if kind in {EVENTS, CLASSES, DRIVERS, SNAPSHOT_CLASSES}:
        return True
    return (document["metadata"].get("labels") or {}).get("app.kubernetes.io/component") == "kernel-cache"


def _merge(target: dict[str, Any], patch: Any) -> None:
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(name, {}), value)
        else:
            target[name] = value
