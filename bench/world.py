"""A cluster in memory to measure on: n nodes with 8 cards of 80 GiB, and 4 pods of 24 GiB on three quarters of them.

A quarter of the nodes is full, so that a request of 24 GiB fits the others and replies carry both lists.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

from accelkit.extender.verbs import Verbs
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share, encode_assignment
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import ASSIGNMENT_ANNOTATION, INVENTORY_ANNOTATION
from accelkit.model.pod import PodRef
from accelkit.model.request import Kind
from accelkit.placement.policies import Policy
from accelkit.vendors.dialects import load_dialects

GIB = 2**30
CARDS = 8
PODS = 4


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def format_node_name(number: int) -> str:
    return f"node-{number:05d}"


def build_inventory(number: int) -> Inventory:
    cards = (
        Card(f"GPU-{number:08x}-0000-0000-0000-{card:012x}", "simulated", "sim-80g", 80 * GIB) for card in range(CARDS)
    )
    return Inventory(GIB, tuple(cards))


def build_assignments(number: int) -> list[Assignment]:
    """The four pods of a node: 24 GiB each, or, on every fourth node, two whole cards each so that nothing is left."""
    cards = build_inventory(number).cards
    if number % 4:
        return [Assignment({"main": (Share(cards[pod].id, 24 * GIB),)}) for pod in range(PODS)]
    return [
        Assignment({"main": tuple(Share(card.id, 80 * GIB, 1000, whole=True) for card in cards[2 * pod : 2 * pod + 2])})
        for pod in range(PODS)
    ]


def build_limits(number: int) -> dict[str, str]:
    """What the pods of a node ask for."""
    return {"accelkit.io/memory": "24"} if number % 4 else {"accelkit.io/cards": "2"}


def build_verbs(nodes: int, most_nodes: Mapping[str, int]) -> dict[str, Verbs]:
    """Return the verbs over one filled ledger, by `WAY/POLICY`.

    Args:
        nodes: how many there are.
        most_nodes: how many filter leaves, by way; 0 for all that fit.
    """
    ledger = Ledger(unit_bytes=GIB)
    for number in range(nodes):
        ledger.put_node(format_node_name(number), build_inventory(number))
        for pod, assignment in enumerate(build_assignments(number)):
            ref = PodRef("default", f"pod-{number}-{pod}", f"uid-{number}-{pod}")
            ledger.confirm(ref, format_node_name(number), assignment, [("main", Kind.APP)])
    feed = LedgerFeed(ledger, load_dialects(["native"]))
    return {
        f"{way}/{policy}": Verbs(ledger, feed, policy, most_nodes=most)
        for way, most in most_nodes.items()
        for policy in Policy
    }


def build_node(number: int) -> dict[str, Any]:
    """A node as kube-scheduler sends it whole, some 7 KB: labels, conditions, and the images that it has."""
    name = format_node_name(number)
    inventory = encode_inventory(build_inventory(number))
    amounts = {"cpu": "96", "memory": "792Gi", "pods": "110", "ephemeral-storage": "3Ti", "accelkit.io/memory": "640"}
    labels = {f"feature.node.kubernetes.io/cpu-cpuid.F{place}": "true" for place in range(12)}
    conditions = [
        {
            "type": kind,
            "status": "True" if kind == "Ready" else "False",
            "lastHeartbeatTime": "2026-01-01T00:00:00Z",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": f"Kubelet{kind}",
            "message": f"kubelet says of {kind} what it has to say",
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    images = [
        {
            "names": [f"registry.example/team/program-{place}@sha256:{place:064x}", f"registry.example/{place}:1"],
            "sizeBytes": 100_000_000 + place,
        }
        for place in range(24)
    ]
    return {
        "metadata": {
            "name": name,
            "uid": f"00000000-0000-4000-8000-{number:012x}",
            "resourceVersion": str(1000 + number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels},
            "annotations": {INVENTORY_ANNOTATION: inventory, "node.alpha.kubernetes.io/ttl": "0"},
        },
        "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": f"example://zone/{name}"},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": conditions,
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {"kernelVersion": "6.1.0", "osImage": "Linux", "kubeletVersion": "v1.34.4"},
            "images": images,
        },
    }


def build_bound_pod(number: int, slot: int) -> dict[str, Any]:
    """A running pod of a node as the API server lists it, some 4 KB: it holds 24 GiB of the card of its slot."""
    name, moment = f"program-{number}-{slot}", "2026-01-01T00:00:00Z"
    share = Share(build_inventory(number).cards[slot % CARDS].id, 24 * GIB)
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": moment} for kind in kinds]
    # Who set which field: of a running pod a third of the whole.
    fields: dict[str, Any] = {f"f:{key}": {} for key in ("image", "imagePullPolicy", "name", "resources", "command")}
    manager = {"operation": "Update", "apiVersion": "v1", "time": moment, "fieldsType": "FieldsV1"}
    created = {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:containers": {"k:main": fields}}}
    held: dict[str, Any] = {f"k:{kind}": {".": {}, "f:status": {}} for kind in kinds}
    reported = {"f:status": {"f:conditions": held}}
    pod = build_pod(24, uid=f"00000000-0000-4000-{slot:04x}-{number:012x}")
    pod["metadata"] |= {
        "name": name,
        "generateName": "program-",
        "resourceVersion": str(1_000_000 + number),
        "annotations": {ASSIGNMENT_ANNOTATION: encode_assignment(Assignment({"main": (share,)}))},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "program", "uid": f"rs-{slot}"}],
        "managedFields": [
            {"manager": "kube-controller-manager", **manager, "fieldsV1": created},
            {"manager": "kubelet", "subresource": "status", **manager, "fieldsV1": reported},
        ],
    }
    pod["spec"] |= {"nodeName": format_node_name(number), "serviceAccountName": "default", "restartPolicy": "Always"}
    ready = {"name": "main", "ready": True, "restartCount": 0, "imageID": f"registry.example/model@sha256:{0:064x}"}
    running = {**ready, "containerID": f"containerd://{number:064x}", "state": {"running": {"startedAt": moment}}}
    pod["status"] = {"phase": "Running", "qosClass": "Burstable", "podIP": "10.1.2.3", "startTime": moment}
    pod["status"] |= {"conditions": conditions, "containerStatuses": [running]}
    return pod


def build_pod(memory_units: int, *, uid: str = "bench", policy: str = "") -> dict[str, Any]:
    """A pod as kube-scheduler sends it, with what a real one carries beside our limit."""
    request = {"accelkit.io/request": json.dumps({"main": {"policy": policy}})} if policy else {}
    return {
        "metadata": {
            "name": "bench",
            "namespace": "default",
            "uid": uid,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "bench", "pod-template-hash": "6d4cf56db6"},
            **({"annotations": request} if request else {}),
            "managedFields": [
                {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {}}}}
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/model:1",
                    "resources": {
                        "limits": {"accelkit.io/memory": str(memory_units), "cpu": "4", "memory": "16Gi"},
                        "requests": {"accelkit.io/memory": str(memory_units), "cpu": "4", "memory": "16Gi"},
                    },
                    "volumeMounts": [
                        {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
                    ],
                }
            ],
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}],
        },
        "status": {"phase": "Pending"},
    }
