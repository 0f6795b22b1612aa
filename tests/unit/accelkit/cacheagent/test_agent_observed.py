"""What the agent reads of pods and of its own node, as API servers send them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from agent_worlds import GIB, A, B, desired, read_pod, stored, world

from accelkit.cacheagent.planning.observed import Node, read_mounting_pod, read_own_node
from accelkit.cacheagent.planning.plan import make_plan
from accelkit.gkm import names
from accelkit.gkm.names import name_private_copy
from accelkit.model.card import Card
from accelkit.model.inventory import Inventory, encode_inventory
from accelkit.model.keys import INVENTORY_ANNOTATION

CREATING = {"waiting": {"reason": "PodInitializing", "message": "…"}}
CRASHING = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed container"}}
RUNNING = {"running": {"startedAt": "2026-11-24T01:02:03Z"}}
ENDED = {"terminated": {"exitCode": 0, "reason": "Completed", "containerID": "containerd://1", "startedAt": None}}


def container(name: str, state: dict[str, Any], restarts: int = 0) -> dict[str, Any]:
    return {
        "name": name,
        "state": state,
        "lastState": {},
        "ready": "running" in state,
        "restartCount": restarts,
        "image": "busybox",
        "imageID": "",
        "started": False,
    }


def pod(status: dict[str, Any], *, init: bool = False, volumes: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A pod as `kubectl get -o json` shows it, without what nobody looks at."""
    claim = {"name": "kernels", "persistentVolumeClaim": {"claimName": "add", "readOnly": True}}
    token = {"name": "kube-api-access", "projected": {"sources": [{"downwardAPI": {"items": []}}]}}
    spec = {"nodeName": "n", "containers": [{"name": "main", "image": "busybox", "resources": {}}]}
    spec["volumes"] = [token, claim] if volumes is None else volumes
    if init:
        spec["initContainers"] = [{"name": "first", "image": "busybox"}]
    meta = {"name": "p", "namespace": "team", "uid": "u1", "labels": {"a": "b"}, "managedFields": [{"manager": "x"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


@pytest.mark.parametrize(
    ("status", "init", "starting"),
    [
        ({"phase": "Pending"}, False, True),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}, False, True),
        ({"phase": "Pending", "containerStatuses": [container("main", CREATING)]}, False, True),
        ({"phase": "Running", "containerStatuses": [container("main", RUNNING)]}, False, False),
        ({"phase": "Running", "containerStatuses": [container("main", CREATING)]}, False, True),
        # A pod that crashes for ever holds up no new digest.
        ({"phase": "Running", "containerStatuses": [container("main", CRASHING, 7)]}, False, False),
        ({"phase": "Running", "containerStatuses": []}, False, True),
        ({"phase": "Running"}, False, True),
        (
            {
                "phase": "Running",
                "initContainerStatuses": [container("first", ENDED)],
                "containerStatuses": [container("main", RUNNING)],
            },
            True,
            False,
        ),
        # The other container has not even a status.
        ({"phase": "Running", "containerStatuses": [container("main", RUNNING)]}, True, True),
    ],
)
def test_pod_is_starting_until_each_container_is_created(status, init, starting):
    found = read_mounting_pod(read_pod(pod(status, init=init)))
    assert (str(found), found.claims, found.starting) == ("team/p", frozenset({"add"}), starting)


def test_claim_of_ephemeral_volume_counts_as_claim():
    """It may be a cache's that was there before the pod: the kubelet takes what has the name."""
    template = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {}}}}
    digits = "a" * 12
    volumes = [{"name": digits, "ephemeral": template}, {"name": names.name_private_copy(digits), "emptyDir": {}}]
    found = read_mounting_pod(read_pod(pod({"phase": "Pending"}, volumes=volumes)))
    assert found.claims == {f"p-{digits}"}
    own = desired(A, "team/p")
    made = make_plan(world(desired(B, "team/p"), stored={own.folder: stored()}, pods=(found,)))
    assert (made.collect, made.usage["team/p"].pods) == ((), {own.folder: (found,)})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_uses_no_cache(phase):
    assert read_mounting_pod(read_pod(pod({"phase": phase}))) is None


@pytest.mark.parametrize("volumes", [[], [{"name": "a", "emptyDir": {}}]])
def test_pod_without_claims_is_ignored(volumes):
    assert read_mounting_pod(read_pod(pod({"phase": "Running"}, volumes=volumes))) is None


def test_private_copy_is_identified_by_copied_volume():
    copied, asked = name_private_copy("kernels"), name_private_copy("team/other", "/cache")
    volumes = [
        {"name": "kernels", "persistentVolumeClaim": {"claimName": "add-0123456789ab"}},
        {"name": copied, "emptyDir": {"sizeLimit": "4Gi"}},
        {"name": f"{asked}-from", "persistentVolumeClaim": {"claimName": "other-0123456789ab"}},
        {"name": asked, "emptyDir": {}},
        # Named like one of ours, by a user.
        {"name": "accelkit-cache-0123456789", "emptyDir": {}},
    ]
    found = read_mounting_pod(read_pod(pod({"phase": "Running"}, volumes=volumes)))
    assert found.copies == {copied: "add-0123456789ab", asked: "other-0123456789ab"}
    volumes = [{"name": each, "persistentVolumeClaim": {"claimName": "add"}} for each in ("kernels", copied)]
    found = read_mounting_pod(read_pod(pod({"phase": "Running"}, volumes=volumes)))
    assert not found.copies


def test_literal_variables_of_containers_with_private_copy_are_read():
    copied = name_private_copy("kernels")
    claim = {"name": "kernels", "persistentVolumeClaim": {"claimName": "add"}}
    sent = pod({"phase": "Running"}, volumes=[claim, {"name": copied, "emptyDir": {}}])
    mounts, environment = (
        [{"name": copied, "mountPath": "/c"}],
        [
            {"name": "VLLM_USE_V1", "value": "1"},
            {"name": "VLLM_USE_V1", "value": "0"},
            {"name": "VLLM_UNSET"},
            {"name": "VLLM_CACHE_ROOT", "value": "/c"},
            {"name": "VLLM_SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "VLLM_REFERS", "value": "$(HOME)"},
            {"name": "VLLM_LONG", "value": "x" * 300},
            {"name": "HOME", "value": "/"},
        ],
    )
    sent["spec"]["containers"] = [
        {"name": "main", "image": "x", "env": environment, "volumeMounts": mounts},
        {"name": "sidecar", "image": "x", "env": [{"name": "VLLM_OTHER", "value": "1"}], "volumeMounts": None},
        {"name": "silent", "image": "x", "env": None, "volumeMounts": mounts},
    ]
    found = read_mounting_pod(read_pod(sent))
    assert found.variables == {copied: ({"VLLM_USE_V1": "0", "VLLM_UNSET": ""},)}


def test_stored_variables_of_pod_are_bounded():
    copied = name_private_copy("kernels")
    claim = {"name": "kernels", "persistentVolumeClaim": {"claimName": "add"}}
    sent = pod({"phase": "Running"}, volumes=[claim, {"name": copied, "emptyDir": {}}])
    environment = [{"name": f"VLLM_{number}", "value": "x" * 100} for number in range(1000)]
    container = {"image": "x", "env": environment, "volumeMounts": [{"name": copied, "mountPath": "/c"}]}
    sent["spec"]["containers"] = [{"name": f"c{number}", **container} for number in range(50)]
    found = read_mounting_pod(read_pod(sent))
    kept = [name + value for each in found.variables[copied] for name, value in each.items()]
    assert 0 < sum(map(len, kept)) <= 32 << 10


def read_node(annotations: dict[str, str] | None, labels: dict[str, str] | None = None):
    document = {
        "metadata": {"name": "n", "annotations": annotations, "labels": labels},
        "status": {"nodeInfo": {"architecture": "arm64", "kernelVersion": "6"}, "capacity": {"cpu": "8"}},
    }
    return read_own_node(msgspec.json.decode(msgspec.json.encode(document), type=Node))


def test_cards_of_node_are_read_from_inventory():
    cards = (Card("b", "simulated", "x", GIB, index=1, target="cuda:90"), Card("c", "simulated", "x", GIB, index=3))
    node = read_node({INVENTORY_ANNOTATION: encode_inventory(Inventory(GIB, cards))})
    assert node.facts.gpus is not None
    assert [each.arch for each in node.facts.gpus] == ["90", None]
    assert node.facts.cpu_architecture == "arm64"
    assert node.number_of("gone") is None
    node = read_node(None)
    assert (node.facts.gpus, node.cards, node.problem) == (None, (), "")


@pytest.mark.parametrize("text", ["", "{", '{"version": 99}', "[]"])
def test_unreadable_inventory_leaves_cards_unknown_with_reason(text):
    node = read_node({INVENTORY_ANNOTATION: text})
    assert node.facts.gpus is None
    assert "cannot use the inventory" in node.problem
