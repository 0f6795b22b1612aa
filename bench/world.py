"""A cluster in memory to measure on: n nodes with 8 cards of 80 GiB, and 4 pods of 24 GiB on three quarters of them.

A quarter of the nodes is full, so that a request of 24 GiB fits the others and replies carry both lists.
"""

from __future__ import annotations

import json
import socket
from typing import Any

from accelkit.extender.verbs import Verbs
from accelkit.ledger.feed import LedgerFeed
from accelkit.ledger.ledger import Ledger
from accelkit.model.assignment import Assignment, Share
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory
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


def build_verbs(nodes: int) -> Verbs:
    """Return the verbs over a filled ledger."""
    ledger = Ledger(unit_bytes=GIB)
    for number in range(nodes):
        ledger.put_node(format_node_name(number), build_inventory(number))
        for pod, assignment in enumerate(build_assignments(number)):
            ref = PodRef("default", f"pod-{number}-{pod}", f"uid-{number}-{pod}")
            ledger.confirm(ref, format_node_name(number), assignment, [("main", Kind.APP)])
    dialects = load_dialects(["native"])
    return Verbs(ledger, LedgerFeed(ledger, dialects), Policy.BINPACK)


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
