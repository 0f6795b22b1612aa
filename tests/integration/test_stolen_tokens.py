"""What a stolen token of the cache controller is good for: each way to a node or to another's key is refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from bounded_accounts import cache_bounds, installed_bounds
from cluster_objects import kubeconfig_of_account
from impersonation import find_refusal
from stolen_attacks import ATTACKS, MADE, NAME, OURS, POD, TENANT
from stolen_manifests import IMAGE, change
from support.waiting import until
from webhook_registration import CONFIGURATIONS, build_configuration

from accelkit.gkm import names
from accelkit.install.certificates.issuing import Authority
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import delete_if_present
from accelkit.kube.paths import build_collection_path, build_object_path

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

DRY = {"dryRun": "All"}
COLLECTIONS = {
    "job": build_collection_path("batch/v1", "jobs", OURS),
    "check": build_collection_path("batch/v1", "jobs", OURS),
    "daemon_set": build_collection_path("apps/v1", "daemonsets", OURS),
    "config_map": build_collection_path("v1", "configmaps", OURS),
    "secret": build_collection_path("v1", "secrets", OURS),
    "volume": build_collection_path("v1", "persistentvolumes"),
    "claim": build_collection_path("v1", "persistentvolumeclaims", TENANT),
    "filled": build_collection_path("v1", "persistentvolumeclaims", OURS),
    "cloned": build_collection_path("v1", "persistentvolumeclaims", OURS),
    "lease": build_collection_path("coordination.k8s.io/v1", "leases", OURS),
}


@pytest.fixture(scope="module")
def site(control_plane, defined):
    """The account with its rights and policies; yields a kubeconfig with its token."""
    bounds = cache_bounds(OURS, NAME, IMAGE)

    async def begin(api):
        for namespace in (OURS, TENANT):
            await api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})

    async def end(api):
        for namespace in (OURS, TENANT):
            await delete_if_present(api, f"/api/v1/namespaces/{namespace}")

    asyncio.run(with_api(control_plane, begin))
    try:
        with installed_bounds(control_plane.kubeconfig, bounds):
            config = asyncio.run(kubeconfig_of_account(control_plane, NAME, OURS))
            asyncio.run(in_force(config))
            yield config
    finally:
        asyncio.run(with_api(control_plane, end))


async def with_api(sandbox, action):
    async with ApiClient(load_connection(sandbox.kubeconfig)) as api:
        await action(api)


async def in_force(config):
    """Wait until each policy refuses what it has to."""
    async with ApiClient(load_connection(config)) as thief:
        for kind, bad in (
            ("config_map", {"metadata/name": "other"}),
            ("job", {f"{POD}/hostPID": True}),
            ("volume", {"metadata/labels": {}}),
        ):

            async def refused(kind=kind, bad=bad):
                body = change(getattr(MADE, kind), bad)
                return "denied request" in await find_refusal(thief.post(COLLECTIONS[kind], body, query=DRY))

            await until(refused)


@pytest.fixture
async def thief(site):
    """Who has the token."""
    async with ApiClient(load_connection(site)) as api:
        yield api


@pytest.fixture
async def api(control_plane, site):
    async with ApiClient(load_connection(control_plane.kubeconfig)) as api:
        yield api


@pytest.mark.parametrize("kind", [each for each in COLLECTIONS if each != "lease"])
async def test_controller_objects_are_accepted(thief, kind):
    refused = await find_refusal(thief.post(COLLECTIONS[kind], getattr(MADE, kind), query=DRY))
    # Policies judge it before the API server finds that another test has made it.
    assert not refused or refused.endswith("already exists")


@pytest.mark.parametrize(
    ("kind", "changes", "said"), [each[1:] for each in ATTACKS], ids=[f"{each[1]}: {each[0]}" for each in ATTACKS]
)
async def test_stolen_controller_token_creates_no_other_objects(thief, kind, changes, said):
    refused = await find_refusal(thief.post(COLLECTIONS[kind], change(getattr(MADE, kind), changes), query=DRY))
    assert "denied request" in refused
    assert any(each in refused for each in ([said] if isinstance(said, str) else said)), refused


async def test_stolen_controller_token_cannot_mount_image_by_tag(thief):
    tag = {"name": "kernel-cache", "image": {"reference": "quay.io/team/app:v1"}}
    bad = change(MADE.daemon_set, {f"{POD}/volumes/0": tag})
    refused = await find_refusal(thief.post(COLLECTIONS["daemon_set"], bad, query=DRY))
    if not refused:
        # Before 1.35 the API server drops such volumes.
        taken = json.loads(await thief.post(COLLECTIONS["daemon_set"], bad, query=DRY))
        assert "image" not in str(taken["spec"]["template"]["spec"].get("volumes"))
    else:
        assert "mount only claims" in refused


CONFIGURATION = build_object_path(CONFIGURATIONS, NAME)
WIDER = [{"op": "replace", "path": "/webhooks/0/matchConditions", "value": []}]


async def test_stolen_controller_token_cannot_change_webhook_configuration(thief, api, tmp_path):
    (tmp_path / "ca.crt").write_bytes(Authority("webhook").certificate)
    made = build_configuration(NAME, 9, tmp_path / "ca.crt")
    await api.post(CONFIGURATIONS, made)
    try:
        before = await api.get(CONFIGURATION)
        everything = {**made, "webhooks": [{**made["webhooks"][0], "matchConditions": []}]}
        force = {"fieldManager": "accelkit-cache-controller", "force": "true"}
        tries = {
            "patch": [
                thief.patch(CONFIGURATION, WIDER, kind="json"),
                thief.patch(CONFIGURATION, {"webhooks": everything["webhooks"]}),
                thief.patch(CONFIGURATION, everything, kind="apply", query=force),
            ],
            "update": [thief.put(CONFIGURATION, everything)],
            "delete": [thief.delete(CONFIGURATION)],
            "create": [thief.post(CONFIGURATIONS, {**everything, "metadata": {"name": "another"}})],
        }
        for verb, requests in tries.items():
            for request in requests:
                assert f"cannot {verb} resource" in await find_refusal(request)
        assert await api.get(CONFIGURATION) == before
    finally:
        await delete_if_present(api, CONFIGURATION)


VOLUMES, CLAIMS = COLLECTIONS["volume"], COLLECTIONS["claim"]
CACHES = build_collection_path("gkm.io/v1alpha1", "gkmcaches", TENANT)
PROTECTED = {
    "metadata": {"labels": {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/component": "kernel-cache"}}
}
MINE = {
    "claimRef": {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": OURS,
        "name": MADE.filled["metadata"]["name"],
    }
}
# As earlier releases wrote it: without the namespace in its path.
FORMER = change(
    MADE.volume,
    {"metadata/name": "accelkit-cache-former", "spec/hostPath/path": str(names.HOST_FOLDER / "claims" / ("0" * 20))},
)


@pytest.fixture(scope="module")
def others(control_plane, site):
    """Objects of a tenant and of another component, and some that the controller made; yields their paths."""
    storage = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "8Mi"}, "storageClassName": "disk"}
    folder = {"hostPath": {"path": "/data"}, "persistentVolumeReclaimPolicy": "Retain"}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disk",
        "resources": {"requests": {"storage": "8Mi"}},
    }
    spec = {"image": "quay.io/team/app:v1"}
    cache = {"apiVersion": "gkm.io/v1alpha1", "kind": "GKMCache", "metadata": {"name": "kernels"}, "spec": spec}
    bodies = [
        (COLLECTIONS["config_map"], {"metadata": {"name": "accelkit-scheduler-keeper"}, "data": {"spec.json": "{}"}}),
        (COLLECTIONS["job"], {**MADE.job, "metadata": {"name": "accelkit-driver-build", "namespace": OURS}}),
        (CLAIMS, {"metadata": {"name": "data"}, "spec": claim}),
        (VOLUMES, {"metadata": {"name": "stolen-data"}, "spec": {**storage, **folder}}),
        (VOLUMES, {"metadata": {"name": "stolen-filled"}, "spec": {**storage, **folder, **MINE}}),
        (CACHES, cache),
        (CLAIMS, MADE.claim),
        (VOLUMES, MADE.volume),
        (VOLUMES, FORMER),
    ]

    async def begin(api):
        for path, body in bodies:
            await api.post(path, body)

    async def end(api):
        for path, body in reversed(bodies):
            found = f"{path}/{body['metadata']['name']}"
            await api.patch(found, {"metadata": {"finalizers": None}})
            await delete_if_present(api, found)

    try:
        asyncio.run(with_api(control_plane, begin))
        yield
    finally:
        asyncio.run(with_api(control_plane, end))


OTHERS: list[tuple[str, str, dict[str, Any] | None, str]] = [
    (f"{COLLECTIONS['config_map']}/accelkit-scheduler-keeper", "delete", None, "write only its own configmaps"),
    (f"{COLLECTIONS['job']}/accelkit-driver-build", "delete", None, "write only its own jobs"),
    (f"{CLAIMS}/data", "delete", None, "write only the persistentvolumeclaims of kernel caches"),
    (f"{VOLUMES}/stolen-data", "delete", None, "write only the persistentvolumes of kernel caches"),
    (f"{VOLUMES}/stolen-filled", "delete", None, "write only the persistentvolumes of kernel caches"),
    (f"{CACHES}/kernels", "delete", None, "cannot delete resource"),
    # By a label first, and then as its own.
    (f"{CLAIMS}/data", "patch", PROTECTED, "write only the persistentvolumeclaims of kernel caches"),
    (f"{VOLUMES}/stolen-data", "patch", PROTECTED, "write only the persistentvolumes of kernel caches"),
    (
        f"{VOLUMES}/stolen-data",
        "patch",
        {**PROTECTED, "spec": MINE},
        "write only the persistentvolumes of kernel caches",
    ),
    (
        f"{VOLUMES}/stolen-filled",
        "patch",
        {**PROTECTED, "spec": {"mountOptions": ["suid"]}},
        "only the claim, access modes",
    ),
    (f"{VOLUMES}/stolen-filled", "patch", {"metadata": {"labels": {"a": "b"}}}, "write only labels"),
    (
        f"{VOLUMES}/stolen-filled",
        "patch",
        {"metadata": {"finalizers": None, **PROTECTED["metadata"]}},
        "only its own finalizer",
    ),
    (
        f"{VOLUMES}/stolen-filled",
        "patch",
        {"spec": {"persistentVolumeReclaimPolicy": "Recycle"}, **PROTECTED},
        "only the claim, access modes",
    ),
    (f"{CLAIMS}/kernels", "patch", {"spec": {"resources": {"requests": {"storage": "1Ti"}}}}, "is immutable"),
    (f"{CLAIMS}/kernels", "patch", {"metadata": {"finalizers": None}}, "only its own finalizer"),
    (
        f"{CLAIMS}/kernels",
        "patch",
        {"metadata": {"labels": {"app.kubernetes.io/component": None}}},
        "write only labels",
    ),
    (f"{CLAIMS}/kernels", "patch", {"metadata": {"annotations": {"a": "b"}}}, "write only labels and annotations"),
    (f"{CACHES}/kernels", "patch", {"spec": {"image": "evil.test/app:v1"}}, "no other field of a cache"),
    (f"{CACHES}/kernels", "patch", {"metadata": {"labels": {"a": "b"}}}, "no other field of a cache"),
    (f"{CACHES}/kernels", "patch", {"metadata": {"finalizers": ["x.test/stays"]}}, "only its own finalizer"),
    # What the controller does.
    (f"{CLAIMS}/kernels", "patch", {"metadata": {"annotations": {"cache.accelkit.io/volume": "x 1"}}}, ""),
    (f"{CLAIMS}/kernels", "patch", {"metadata": {"ownerReferences": None}}, ""),
    (f"{CACHES}/kernels", "patch", {"metadata": {"finalizers": ["cache.accelkit.io/in-use"]}}, ""),
    (
        f"{VOLUMES}/stolen-filled",
        "patch",
        {
            **PROTECTED,
            "spec": {
                "persistentVolumeReclaimPolicy": "Delete",
                "accessModes": ["ReadOnlyMany"],
                "claimRef": {"namespace": TENANT, "name": "kernels", "uid": "0"},
            },
        },
        "",
    ),
    (f"{CLAIMS}/kernels", "delete", {"dryRun": ["All"]}, ""),
    *[
        (f"{VOLUMES}/{name}", *attempt)
        for name in (MADE.volume["metadata"]["name"], FORMER["metadata"]["name"])
        for attempt in (
            ("patch", {"spec": {"claimRef": {"namespace": "other", "uid": "1"}}}, "a claim of another namespace"),
            ("patch", {"spec": {"claimRef": {"namespace": OURS, "uid": "1"}}}, "a claim of another namespace"),
            ("patch", {"spec": {"claimRef": None}}, "only the claim, access modes"),
            ("patch", {"spec": {"claimRef": {"uid": "1", "resourceVersion": None}}}, ""),
            ("delete", {"dryRun": ["All"]}, ""),
        )
    ],
]


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize(("path", "verb", "body", "said"), OTHERS)
async def test_stolen_controller_token_cannot_change_foreign_objects(thief, path, verb, body, said):
    if verb == "delete":
        refused = await find_refusal(thief.delete(path, body or {"dryRun": ["All"]}))
    else:
        refused = await find_refusal(thief.patch(path, body, query=DRY))
    assert said in refused
    assert bool(refused) is bool(said)
