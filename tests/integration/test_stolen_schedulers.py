"""Stolen tokens of the second scheduler, the certificate renewal and readers: they write only what their work needs."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from bounded_accounts import certificates_bounds, installed_bounds, reader_bounds, second_scheduler_bounds
from cluster_objects import kubeconfig_of_account
from impersonation import find_refusal, stealing_tokens
from stolen_manifests import change
from support.waiting import until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import delete_if_present
from accelkit.kube.paths import build_collection_path, build_object_path

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

OURS, TENANT = "stolen-schedulers", "stolen-schedulers-tenant"
SCHEDULER, CERTIFICATES, INSPECTOR = "stolen-scheduler", "accelkit-certificates", "accelkit-inspector"
DRY = {"dryRun": "All"}
LEASES = build_collection_path("coordination.k8s.io/v1", "leases", OURS)
SYSTEM_LEASES = LEASES.replace(OURS, "kube-system")
PODS = build_collection_path("v1", "pods", TENANT)
CLAIM = build_object_path(build_collection_path("v1", "persistentvolumeclaims", TENANT), "data")
VOLUMES = build_collection_path("v1", "persistentvolumes")
DEVICES = build_object_path(build_collection_path("resource.k8s.io/v1", "resourceclaims", TENANT), "devices")
FREE, BOUND = (build_object_path(VOLUMES, f"stolen-schedulers-{each}") for each in ("free", "bound"))
SECRETS = build_collection_path("v1", "secrets", OURS)
CERTIFICATE = build_object_path(SECRETS, "accelkit-extender-tls")
STORAGE = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none"}
REFERENCE = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": TENANT, "name": "data"}
VOLUME = {
    **STORAGE,
    "capacity": {"storage": "8Mi"},
    "hostPath": {"path": "/data"},
    "persistentVolumeReclaimPolicy": "Retain",
}
OWNER = [{"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "0"}]
WAITS = {"schedulerName": "none", "containers": [{"name": "main", "image": "vendor.test/tools:1"}]}
BODIES: list[tuple[str, dict[str, Any]]] = [
    (PODS, {"metadata": {"name": "waits"}, "spec": WAITS}),
    (PODS.replace(TENANT, OURS), {"metadata": {"name": "waits"}, "spec": WAITS}),
    (
        CLAIM.rpartition("/")[0],
        {"metadata": {"name": "data"}, "spec": {**STORAGE, "resources": {"requests": {"storage": "8Mi"}}}},
    ),
    (
        DEVICES.rpartition("/")[0],
        {
            "metadata": {"name": "devices"},
            "spec": {"devices": {"requests": [{"name": "any", "exactly": {"deviceClassName": "vendor.test"}}]}},
        },
    ),
    (VOLUMES, {"metadata": {"name": FREE.rpartition("/")[2]}, "spec": {**VOLUME, "storageClassName": "other"}}),
    (
        VOLUMES,
        {
            "metadata": {"name": BOUND.rpartition("/")[2]},
            "spec": {**VOLUME, "claimRef": {**REFERENCE, "name": "former", "uid": "0"}},
        },
    ),
    (
        SECRETS,
        {
            "metadata": {"name": "accelkit-extender-tls", "labels": {"app.kubernetes.io/part-of": "accelkit"}},
            "type": "kubernetes.io/tls",
            "stringData": {"tls.crt": "a", "tls.key": "a", "ca.crt": "a"},
        },
    ),
    (SYSTEM_LEASES, {"metadata": {"name": "kube-scheduler"}, "spec": {"holderIdentity": "a"}}),
]


async def with_api(config, action):
    async with ApiClient(load_connection(config)) as api:
        return await action(api)


@pytest.fixture(scope="module")
def site(control_plane):
    """The accounts with their rights and policies, and objects of tenants; yields kubeconfigs with their tokens."""

    async def begin(api):
        for name in (OURS, TENANT):
            await api.post("/api/v1/namespaces", {"metadata": {"name": name}})
            # Pods are refused until a controller created it.
            await until(lambda name=name: _exists(api, f"/api/v1/namespaces/{name}/serviceaccounts/default"))
        for path, body in BODIES:
            await api.post(path, body)

    async def end(api):
        for path, body in reversed(BODIES):
            await delete_if_present(api, build_object_path(path, body["metadata"]["name"]))
        for name in (OURS, TENANT):
            await delete_if_present(api, f"/api/v1/namespaces/{name}")

    admin = control_plane.kubeconfig
    try:
        asyncio.run(with_api(admin, begin))
        bounds = [
            *second_scheduler_bounds(OURS, SCHEDULER),
            *certificates_bounds(OURS),
            *reader_bounds(OURS, "accelkit-extender"),
        ]
        with installed_bounds(admin, bounds):
            accounts = (SCHEDULER, CERTIFICATES, INSPECTOR)
            tokens = {name: asyncio.run(kubeconfig_of_account(control_plane, name, OURS)) for name in accounts}
            # Each policy is in force when it refuses what it has to.
            for account, path, changes in (
                (SCHEDULER, f"{PODS}/waits/status", {"metadata": {"labels": {"a": "b"}}}),
                (SCHEDULER, CLAIM, {"metadata": {"labels": {"a": "b"}}}),
                (SCHEDULER, DEVICES, {"metadata": {"finalizers": ["x.test/stay"]}}),
            ):
                asyncio.run(with_api(tokens[account], lambda api, p=path, c=changes: _refused(api.patch, p, c)))
            binding = write_binding({"labels": {"a": "b"}})
            asyncio.run(with_api(tokens[SCHEDULER], lambda api: _refused(api.post, f"{PODS}/waits/binding", binding)))
            lease = {"metadata": {"name": "accelkit-run"}}
            asyncio.run(with_api(tokens[SCHEDULER], lambda api: _refused(api.post, SYSTEM_LEASES, lease)))
            asyncio.run(with_api(tokens[CERTIFICATES], _refused_secret))
            yield tokens
    finally:
        asyncio.run(with_api(admin, end))


async def _exists(api, path):
    return not await find_refusal(api.get(path))


async def _refused(send, path, body):
    async def is_refused():
        return "denied request" in await find_refusal(send(path, body, query=DRY))

    await until(is_refused)


async def _refused_secret(api):
    async def is_refused():
        return "denied request" in await replace(api, CERTIFICATE, {"metadata/labels/a": "b"})

    await until(is_refused)


async def replace(api, path, changes):
    """Update an object that the account may read, and return the refusal."""
    body = json.loads(await api.get(path))
    return await find_refusal(api.put(path, change(body, changes), query=DRY))


def write_binding(metadata):
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
    return {"metadata": {"name": "waits", **metadata}, "target": target}


@pytest.fixture
async def thief_of(site):
    """Makes clients that have the token of an account."""
    async with stealing_tokens(site) as steal:
        yield steal


NODES_TOPOLOGY = {"labels": {"topology.kubernetes.io/zone": "a"}}
SELECTED = {"volume.kubernetes.io/selected-node": "node-1"}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
CONTAINERS = [{"name": "main", "image": "a", "imageID": "a", "ready": True, "restartCount": 0}]
METADATA, REPORTED = "not write the metadata of pods", "not write what kubelets report"
ANNOTATIONS, VOLUME_CLAIM = "change only the annotations", "only the claim of a volume"
MOVED = "must not give a volume of one claim to another"
SCHEDULED: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("its Lease", "post", LEASES, {"metadata": {"name": SCHEDULER}}, ""),
    ("its Lease with an owner", "post", LEASES, {"metadata": {"name": SCHEDULER, "ownerReferences": OWNER}}, "owners"),
    ("a Lease of accelkit", "post", LEASES, {"metadata": {"name": "accelkit-extender"}}, "only its own Lease"),
    ("the Lease of playbooks", "post", SYSTEM_LEASES, {"metadata": {"name": "accelkit-run"}}, "only its own Lease"),
    ("a binding", "post", f"{PODS}/waits/binding", write_binding({}), ""),
    ("a binding with the zone", "post", f"{PODS}/waits/binding", write_binding(NODES_TOPOLOGY), ""),
    (
        "a device by a binding",
        "post",
        f"{PODS}/waits/binding",
        write_binding({"annotations": {"cdi.k8s.io/x": "vendor.test/device=0"}}),
        "not write annotations or labels",
    ),
    (
        "a device by the old binding",
        "post",
        PODS.replace("pods", "bindings"),
        write_binding({"annotations": {"cdi.k8s.io/x": "vendor.test/device=0"}}),
        "not write annotations or labels",
    ),
    (
        "a pod of accelkit",
        "post",
        f"{PODS.replace(TENANT, OURS)}/waits/binding",
        write_binding({}),
        "not bind pods of accelkit",
    ),
    (
        "a result",
        "patch",
        f"{PODS}/waits/status",
        {"status": {"nominatedNodeName": "node-1", "conditions": [UNSCHEDULABLE]}},
        "",
    ),
    (
        "a node for a pod of accelkit",
        "patch",
        f"{PODS.replace(TENANT, OURS)}/waits/status",
        {"status": {"nominatedNodeName": "node-1"}},
        "not nominate nodes for pods of accelkit",
    ),
    (
        "a victim of accelkit",
        "patch",
        f"{PODS.replace(TENANT, OURS)}/waits/status",
        {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}},
        "",
    ),
    ("a device", "patch", f"{PODS}/waits/status", {"metadata": {"annotations": {"cdi.k8s.io/x": "a"}}}, METADATA),
    ("a label of accelkit", "patch", f"{PODS}/waits/status", {"metadata": {"labels": {"a": "b"}}}, METADATA),
    ("a finalizer", "patch", f"{PODS}/waits/status", {"metadata": {"finalizers": ["x.test/stay"]}}, METADATA),
    ("an end", "patch", f"{PODS}/waits/status", {"status": {"phase": "Failed"}}, REPORTED),
    (
        "another address",
        "patch",
        f"{PODS}/waits/status",
        {"status": {"podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}]}},
        REPORTED,
    ),
    (
        "readiness",
        "patch",
        f"{PODS}/waits/status",
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        REPORTED,
    ),
    ("containers", "patch", f"{PODS}/waits/status", {"status": {"containerStatuses": CONTAINERS}}, REPORTED),
    ("a claim's node", "patch", CLAIM, {"metadata": {"annotations": SELECTED}}, ""),
    ("a claim's end", "patch", CLAIM, {"metadata": {"ownerReferences": OWNER}}, ANNOTATIONS),
    ("a claim's finalizers", "patch", CLAIM, {"metadata": {"finalizers": ["x.test/stay"]}}, ANNOTATIONS),
    ("a claim's label", "patch", CLAIM, {"metadata": {"labels": {"a": "b"}}}, ANNOTATIONS),
    ("a claim's provisioner", "patch", CLAIM, {"metadata": {"annotations": {"a": "b"}}}, ANNOTATIONS),
    ("a claim's volume", "patch", CLAIM, {"spec": {"volumeName": "other"}}, VOLUME_CLAIM),
    (
        "a finalizer of devices",
        "patch",
        DEVICES,
        {"metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]}},
        "",
    ),
    ("the end of devices", "patch", DEVICES, {"metadata": {"ownerReferences": OWNER}}, "and no owners"),
    ("devices for ever", "patch", DEVICES, {"metadata": {"finalizers": ["x.test/stay"]}}, "only its own finalizer"),
    (
        "a free volume's claim",
        "patch",
        FREE,
        {"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}, "spec": {"claimRef": REFERENCE}},
        "",
    ),
    ("a volume's policy", "patch", FREE, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}, VOLUME_CLAIM),
    ("a volume's options", "patch", FREE, {"spec": {"mountOptions": ["suid"]}}, VOLUME_CLAIM),
    ("a volume's end", "patch", FREE, {"metadata": {"ownerReferences": OWNER}}, ANNOTATIONS),
    ("another's volume", "patch", BOUND, {"spec": {"claimRef": {"name": "data", "uid": "1"}}}, MOVED),
    ("another's released volume", "patch", BOUND, {"spec": {"claimRef": None}}, MOVED),
    ("another's volume by its uid", "patch", BOUND, {"spec": {"claimRef": {"uid": None}}}, MOVED),
]


@pytest.mark.parametrize(
    ("verb", "path", "body", "said"), [each[1:] for each in SCHEDULED], ids=[each[0] for each in SCHEDULED]
)
async def test_stolen_second_scheduler_token_writes_only_scheduling_objects(thief_of, verb, path, body, said):
    thief = await thief_of(SCHEDULER)
    refused = await find_refusal(getattr(thief, verb)(path, body, query=DRY))
    assert said in refused
    assert bool(refused) is bool(said), refused


async def test_stolen_second_scheduler_token_cannot_write_kube_scheduler_lease(thief_of):
    refused = await replace(
        await thief_of(SCHEDULER), f"{SYSTEM_LEASES}/kube-scheduler", {"spec/holderIdentity": "thief"}
    )
    assert "only its own Lease" in refused


RENEWED: list[tuple[str, dict[str, Any], str]] = [
    ("a new certificate", {"data/tls.crt": "Yg==", "data/tls.key": "Yg=="}, ""),
    ("another authority", {"data/ca.crt": "Yg=="}, "only tls.crt and tls.key"),
    ("no authority", {"data/ca.crt": None}, "only tls.crt and tls.key"),
    ("more data", {"data/x": "Yg=="}, "only tls.crt and tls.key"),
    ("a Secret for ever", {"immutable": True}, "must not change the metadata"),
    ("a finalizer", {"metadata/finalizers": ["x.test/stay"]}, "must not change the metadata"),
    ("an owner", {"metadata/ownerReferences": OWNER}, "must not change the metadata"),
    ("no label", {"metadata/labels": None}, "must not change the metadata"),
    ("an annotation", {"metadata/annotations": {"a": "b"}}, "must not change the metadata"),
]


@pytest.mark.parametrize(("changes", "said"), [each[1:] for each in RENEWED], ids=[each[0] for each in RENEWED])
async def test_stolen_renewal_token_replaces_only_certificate_and_key(thief_of, changes, said):
    refused = await replace(await thief_of(CERTIFICATES), CERTIFICATE, changes)
    assert said in refused
    assert bool(refused) is bool(said), refused


RBAC_PATHS = "/apis/rbac.authorization.k8s.io/v1"
NAMED = {"metadata": {"name": "stolen"}}
FORBIDDEN: list[tuple[str, str, str, dict[str, Any] | None]] = [
    ("a pod", "post", PODS.replace(TENANT, OURS), NAMED),
    ("a tenant's pod", "post", PODS, NAMED),
    ("a Job", "post", build_collection_path("batch/v1", "jobs", OURS), NAMED),
    ("a token", "post", f"/api/v1/namespaces/{OURS}/serviceaccounts/{SCHEDULER}/token", {}),
    ("a Secret with a token", "post", SECRETS, {**NAMED, "type": "kubernetes.io/service-account-token"}),
    ("the authority's key", "get", f"{SECRETS}/accelkit-ca", None),
    ("all keys", "get", SECRETS, None),
    ("Secrets of tenants", "get", "/api/v1/secrets", None),
    ("a shell", "post", f"{PODS}/waits/exec", {}),
    ("an ephemeral container", "patch", f"{PODS}/waits/ephemeralcontainers", {}),
    ("a kubelet", "get", "/api/v1/nodes/node-1/proxy/pods", None),
    ("a node", "patch", "/api/v1/nodes/node-1", {"metadata": {"labels": {"a": "b"}}}),
    ("another Service", "get", f"/api/v1/namespaces/{OURS}/services/https:accelkit-extender:https/proxy/", None),
    ("a Role", "post", f"{RBAC_PATHS}/namespaces/{OURS}/roles", NAMED),
    ("a ClusterRoleBinding", "post", f"{RBAC_PATHS}/clusterrolebindings", NAMED),
    ("a policy", "delete", f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{CERTIFICATES}", None),
    ("a ConfigMap", "patch", f"/api/v1/namespaces/{OURS}/configmaps/{SCHEDULER}", {"data": {}}),
    ("a Deployment", "delete", f"/apis/apps/v1/namespaces/{OURS}/deployments/accelkit-extender", None),
    ("a Service", "delete", f"/api/v1/namespaces/{OURS}/services/accelkit-extender", None),
]


@pytest.mark.parametrize("account", [SCHEDULER, CERTIFICATES, INSPECTOR])
async def test_stolen_token_has_no_right_to_escalate(thief_of, account):
    thief = await thief_of(account)
    taken = {}
    for what, verb, path, body in FORBIDDEN:
        refused = await find_refusal(getattr(thief, verb)(path, *(() if body is None else (body,))))
        if "cannot " not in refused:
            taken[what] = refused
    assert taken == {}
