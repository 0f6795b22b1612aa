"""Stolen tokens of remediation and the extender: no way to a node, nor to the key or Service of another component."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest
from bounded_accounts import cache_bounds, extender_bounds, installed_bounds, keeper_bounds, remediation_bounds
from cluster_objects import kubeconfig_of_account
from impersonation import acting_as, find_refusal, stealing_tokens
from stolen_manifests import IMAGE, change
from support.waiting import until

from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import delete_if_present
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.remediation.resets import Reset, build_reset_job

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

OURS = "stolen-services"
CACHES, REMEDIATION, EXTENDER = "accelkit-cache-controller", "accelkit-remediation", "accelkit-extender"
KEEPER = "accelkit-scheduler-keeper"
DRY = {"dryRun": "All"}
JOBS = build_collection_path("batch/v1", "jobs", OURS)
CRON_JOBS = build_collection_path("batch/v1", "cronjobs", OURS)
LEASES = build_collection_path("coordination.k8s.io/v1", "leases", OURS)
SLICES = build_collection_path("discovery.k8s.io/v1", "endpointslices", OURS)
CONFIG_MAPS = build_collection_path("v1", "configmaps", OURS)
# As an administrator writes it: it may do on a node whatever a reset needs.
TEMPLATE: dict[str, Any] = {
    "metadata": {"name": "reset"},
    "spec": {
        "schedule": "@yearly",
        "suspend": True,
        "jobTemplate": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"why": "reset"}},
            "spec": {
                "backoffLimit": 1,
                "template": {
                    "metadata": {"labels": {"app": "reset"}},
                    "spec": {
                        "restartPolicy": "Never",
                        "hostPID": True,
                        "initContainers": [{"name": "wait", "image": "vendor.test/tools:1", "command": ["sleep", "1"]}],
                        "containers": [
                            {
                                "name": "reset",
                                "image": "vendor.test/tools:1",
                                "command": ["sh", "-c", "reset \"$ACCELKIT_BDF\" \\\n\t'{{ x }}' # \u00e9 \U0001f600"],
                                "env": [{"name": "LEVEL", "value": "1"}],
                                "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
                                "securityContext": {"privileged": True},
                                "volumeMounts": [{"name": "dev", "mountPath": "/dev"}],
                            }
                        ],
                        "volumes": [{"name": "dev", "hostPath": {"path": "/dev"}}],
                    },
                },
            },
        },
    },
}
VARIABLES = {"ACCELKIT_CARD": "GPU-0a1b", "ACCELKIT_NODE": "node-1", "ACCELKIT_REASON": "Xid79"}
RESET = Reset(
    "reset", "accelkit-reset-0123456789abcdef", OURS, "node-1", {**VARIABLES, "ACCELKIT_BDF": "0000:01:00.0"}, 60.0
)
JOB = build_reset_job(json.dumps(TEMPLATE).encode(), RESET)


async def with_api(config, action):
    async with ApiClient(load_connection(config)) as api:
        return await action(api)


@pytest.fixture(scope="module")
def site(control_plane, defined):
    """All accounts with their rights and policies; yields kubeconfigs with their tokens."""

    async def begin(api):
        await api.post("/api/v1/namespaces", {"metadata": {"name": OURS}})
        await api.post(CRON_JOBS, TEMPLATE)
        return json.loads(await api.get(build_object_path(CRON_JOBS, "reset")))["spec"]["jobTemplate"]

    admin = control_plane.kubeconfig
    template = asyncio.run(with_api(admin, begin))
    former = change(template, {"spec/backoffLimit": 9})
    try:
        # Installed, removed and installed again on the same API server, which then compares with the new template.
        with installed_bounds(admin, remediation_bounds(OURS, REMEDIATION, "reset", former)):
            token = asyncio.run(kubeconfig_of_account(control_plane, REMEDIATION, OURS))
            asyncio.run(with_api(token, partial(judged, JOBS, JOB, "as it was at the last run of site.yml")))
        bounds = [
            *cache_bounds(OURS, CACHES, IMAGE),
            *remediation_bounds(OURS, REMEDIATION, "reset", template),
            *extender_bounds(OURS, EXTENDER),
            *keeper_bounds(OURS),
        ]
        with installed_bounds(admin, bounds):
            accounts = (CACHES, REMEDIATION, EXTENDER, KEEPER)
            tokens = {name: asyncio.run(kubeconfig_of_account(control_plane, name, OURS)) for name in accounts}
            asyncio.run(with_api(tokens[REMEDIATION], partial(judged, JOBS, JOB, "")))
            for _, account, path, body, said in STATE:
                asyncio.run(with_api(tokens[account], partial(judged, path, body, said)))
            yield tokens
    finally:
        asyncio.run(with_api(admin, lambda api: delete_if_present(api, f"/api/v1/namespaces/{OURS}")))


async def judged(path, body, said, thief):
    """Wait until the API server knows the rights of an account, and its policy."""

    async def answered():
        refused = await find_refusal(thief.post(path, body, query=DRY))
        return said in refused and bool(refused) is bool(said)

    await until(answered)


async def read_job(api):
    """The Job that remediation makes of the CronJob, as the API server shows that."""
    return build_reset_job(await api.get(build_object_path(CRON_JOBS, "reset")), RESET)


@pytest.fixture
async def thief_of(site):
    """Makes clients that have the token of an account."""
    async with stealing_tokens(site) as steal:
        yield steal


POD = "spec/template/spec"
CONTAINER = f"{POD}/containers/0"
KEY = {"name": "X", "valueFrom": {"secretKeyRef": {"name": "accelkit-extender-tls", "key": "tls.key"}}}
OTHER = [{"name": "x", "image": "vendor.test/tools:1"}]
RESETS: list[tuple[str, dict[str, Any], str]] = [
    ("another image", {f"{CONTAINER}/image": "evil"}, "except for the node"),
    ("another command", {f"{CONTAINER}/command/2": "id"}, "except for the node"),
    ("arguments", {f"{CONTAINER}/args": ["x"]}, "except for the node"),
    ("another user", {f"{CONTAINER}/securityContext/runAsUser": 0}, "except for the node"),
    ("the host's root", {f"{POD}/volumes/0/hostPath/path": "/"}, "except for the node"),
    ("one more volume", {f"{POD}/volumes/+": {"name": "x", "secret": {"secretName": "x"}}}, "except for the node"),
    ("one more container", {f"{POD}/containers/+": OTHER[0]}, "except for the node"),
    ("another init container", {f"{POD}/initContainers": OTHER}, "except for the node"),
    ("no init container", {f"{POD}/initContainers": None}, "except for the node"),
    ("the host's network", {f"{POD}/hostNetwork": True}, "except for the node"),
    ("an account", {f"{POD}/serviceAccountName": "accelkit-extender"}, "except for the node"),
    ("another account", {f"{POD}/serviceAccountName": "x"}, "except for the node"),
    ("a priority", {f"{POD}/priorityClassName": "system-node-critical"}, "except for the node"),
    ("another variable", {f"{CONTAINER}/env/+": {"name": "LD_PRELOAD", "value": "x"}}, "except for the node"),
    ("another value", {f"{CONTAINER}/env/0/value": "2"}, "except for the node"),
    ("a key as a variable", {f"{CONTAINER}/env/+": KEY}, "except for the node"),
    ("a key in place of a name", {f"{CONTAINER}/env/1": {**KEY, "name": "ACCELKIT_BDF"}}, "except for the node"),
    ("a command in a name", {f"{CONTAINER}/env/1/value": "$(id)"}, "except for the node"),
    ("an address of no card", {f"{CONTAINER}/env/1/value": "../.."}, "except for the node"),
    ("a list of cards", {f"{CONTAINER}/env/2/value": "0,1"}, "except for the node"),
    ("a path as a card", {f"{CONTAINER}/env/2/value": "a/../b"}, "except for the node"),
    ("another node", {f"{CONTAINER}/env/3/value": "node-2"}, "except for the node"),
    ("an option", {f"{CONTAINER}/env/4/value": "--all"}, "except for the node"),
    ("a name twice", {f"{CONTAINER}/env/+": {"name": "ACCELKIT_NODE", "value": "node-1"}}, "except for the node"),
    ("all keys as variables", {f"{CONTAINER}/envFrom": [{"secretRef": {"name": "x"}}]}, "except for the node"),
    ("no node", {f"{POD}/nodeName": None}, "each on one node"),
    ("another name", {"metadata/name": "other"}, "create only Jobs"),
    ("a label", {"metadata/labels/a": "b"}, "must have the labels and annotations"),
    (
        "an owner",
        {"metadata/ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "0"}]},
        "labels",
    ),
    ("a label of pods", {"spec/template/metadata/labels/a": "b"}, "pods that reset a card must have the labels"),
    (
        "a runtime's annotation",
        {"spec/template/metadata/annotations": {"cdi.k8s.io/x": "v.test/d=0"}},
        "have the labels",
    ),
    ("many pods", {"spec/parallelism": 100}, "must match the CronJob"),
    ("pods of others", {"spec/manualSelector": True, "spec/selector": {"matchLabels": {"app": "reset"}}}, "must match"),
    ("more tries", {"spec/backoffLimit": 9}, "must match the CronJob"),
]


@pytest.mark.parametrize(("changes", "said"), [each[1:] for each in RESETS], ids=[each[0] for each in RESETS])
async def test_stolen_remediation_token_runs_only_installed_template(thief_of, changes, said):
    thief = await thief_of(REMEDIATION)
    refused = await find_refusal(thief.post(JOBS, change(await read_job(thief), changes), query=DRY))
    assert "denied request" in refused
    assert said in refused


async def test_changed_remediation_template_is_not_run(thief_of, control_plane):
    thief = await thief_of(REMEDIATION)
    installed = await read_job(thief)
    cron_job = build_object_path(CRON_JOBS, "reset")
    async with ApiClient(load_connection(control_plane.kubeconfig)) as api:
        before = json.loads(await api.get(cron_job))["spec"]
        await api.patch(cron_job, {"spec": change(before, {"jobTemplate/spec/template/spec/hostNetwork": True})})
        try:
            refused = await find_refusal(thief.post(JOBS, await read_job(thief), query=DRY))
            assert "as it was at the last run of site.yml" in refused
            assert await find_refusal(thief.post(JOBS, installed, query=DRY)) == ""
        finally:
            await api.patch(
                cron_job, {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"hostNetwork": None}}}}}}
            )


SYSTEM_LEASES = LEASES.replace(OURS, "kube-system")
STATE: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("its Lease", REMEDIATION, LEASES, {"metadata": {"name": REMEDIATION}}, ""),
    ("another's Lease", REMEDIATION, LEASES, {"metadata": {"name": EXTENDER}}, "its own Lease"),
    ("a report", REMEDIATION, CONFIG_MAPS, {"metadata": {"name": "node-1"}}, "only the ConfigMap of its breaker"),
    ("its Lease", EXTENDER, LEASES, {"metadata": {"name": EXTENDER}}, ""),
    ("another's Lease", EXTENDER, LEASES, {"metadata": {"name": CACHES}}, "write only its own leases"),
    ("its Lease", KEEPER, SYSTEM_LEASES, {"metadata": {"name": "accelkit-run"}}, ""),
    ("another's Lease", KEEPER, SYSTEM_LEASES, {"metadata": {"name": "kube-scheduler"}}, "only the Lease accelkit-run"),
    ("its Lease", CACHES, LEASES, {"metadata": {"name": CACHES}}, ""),
    ("another's Lease", CACHES, LEASES, {"metadata": {"name": EXTENDER}}, "write only its own leases"),
]


def build_slice(name, service):
    labels = {"kubernetes.io/service-name": service}
    return {"metadata": {"name": name, "labels": labels}, "addressType": "IPv4", "endpoints": [], "ports": []}


STATE += [
    ("its slice", EXTENDER, SLICES, build_slice(EXTENDER, EXTENDER), ""),
    ("the slice of the webhook", EXTENDER, SLICES, build_slice("x", CACHES), "write only its own endpointslices"),
    ("its slice for the webhook", EXTENDER, SLICES, build_slice(EXTENDER, CACHES), "must belong to its own Service"),
]


@pytest.mark.parametrize(
    ("account", "path", "body", "said"), [each[1:] for each in STATE], ids=[f"{each[1]}: {each[0]}" for each in STATE]
)
async def test_stolen_token_cannot_write_state_of_other_services(thief_of, account, path, body, said):
    thief = await thief_of(account)
    refused = await find_refusal(thief.post(path, body, query=DRY))
    assert said in refused
    assert bool(refused) is bool(said)


GRANTED = {"nvidia.com/container.main.gpu-memory.limit": "1"}


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"annotations": GRANTED}, "only the annotations of the assignment"),
        ({"annotations": {"cdi.k8s.io/x": "vendor.test/device=0"}}, "only the annotations of the assignment"),
        ({"annotations": {"io.kubernetes.cri-o.Devices": "/dev/sda"}}, "only the annotations of the assignment"),
        ({"labels": {"app.kubernetes.io/name": EXTENDER}}, "not write labels of pods"),
        ({"annotations": {"accelkit.io/assignment": "{}"}}, "not found"),
        ({"labels": {"topology.kubernetes.io/zone": "a"}}, "not found"),
    ],
)
async def test_stolen_extender_token_cannot_set_runtime_annotations_in_binding(thief_of, metadata, said):
    thief = await thief_of(EXTENDER)
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
    path = build_collection_path("v1", "pods", "default") + "/none/binding"
    body = {"metadata": {"name": "none", **metadata}, "target": target}
    assert said in await find_refusal(thief.post(path, body, query=DRY))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("accelkit-certificates-1-abcde", "must not bind pods of accelkit"),
        ("accelkit-share-check-0123456789", "not found"),
        ("other", "not found"),
    ],
)
async def test_stolen_extender_token_cannot_bind_pod_that_mounts_key(thief_of, name, said):
    thief = await thief_of(EXTENDER)
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
    path = f"{build_collection_path('v1', 'pods', OURS)}/{name}/binding"
    assert said in await find_refusal(thief.post(path, {"metadata": {"name": name}, "target": target}, query=DRY))


def test_container_limits_allow_only_amount_annotations_in_binding(control_plane):
    made = extender_bounds("default", "limited", limits=True)
    bounds = [each for each in made if each["metadata"]["name"] == "limited-bindings"]
    with installed_bounds(control_plane.kubeconfig, bounds):
        asyncio.run(try_annotations(control_plane.kubeconfig))


async def try_annotations(kubeconfig):
    target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
    path = build_collection_path("v1", "pods", "default") + "/none/binding"
    async with acting_as(kubeconfig, "system:serviceaccount:default:limited", "system:masters") as extender:

        async def find_answer(annotations):
            body = {"metadata": {"name": "none", "annotations": annotations}, "target": target}
            return await find_refusal(extender.post(path, body, query=DRY))

        async def is_refused():
            return "only the annotations of the assignment" in await find_answer({"k8s.v1.cni.cncf.io/networks": "x"})

        await until(is_refused)
        assert "not found" in await find_answer(GRANTED)


RBAC_PATHS = "/apis/rbac.authorization.k8s.io/v1"
NAMED = {"metadata": {"name": "stolen"}}
# What no account has a right to: each would lead to a node, a token, a key, or past the policies.
FORBIDDEN: list[tuple[str, str, str, dict[str, Any] | None]] = [
    ("a pod", "post", build_collection_path("v1", "pods", OURS), NAMED),
    ("a token", "post", f"/api/v1/namespaces/{OURS}/serviceaccounts/{REMEDIATION}/token", {}),
    ("a token of kube-system", "post", "/api/v1/namespaces/kube-system/serviceaccounts/default/token", {}),
    ("a key", "get", f"/api/v1/namespaces/{OURS}/secrets/accelkit-extender-tls", None),
    ("all keys", "get", f"/api/v1/namespaces/{OURS}/secrets", None),
    ("Secrets of tenants", "get", "/api/v1/secrets", None),
    ("a shell", "post", f"/api/v1/namespaces/{OURS}/pods/x/exec", {}),
    ("an ephemeral container", "patch", f"/api/v1/namespaces/{OURS}/pods/x/ephemeralcontainers", {}),
    ("a kubelet", "get", "/api/v1/nodes/node-1/proxy/pods", None),
    ("a Role", "post", f"{RBAC_PATHS}/namespaces/{OURS}/roles", NAMED),
    ("a ClusterRoleBinding", "post", f"{RBAC_PATHS}/clusterrolebindings", NAMED),
    ("the policy", "delete", f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/{CACHES}", None),
    ("a Deployment", "post", build_collection_path("apps/v1", "deployments", OURS), NAMED),
    ("a CronJob", "patch", build_object_path(CRON_JOBS, "reset"), {"spec": {"suspend": False}}),
    ("all ConfigMaps", "delete", CONFIG_MAPS, None),
    ("all Jobs", "delete", JOBS, None),
    ("all claims", "delete", "/api/v1/namespaces/default/persistentvolumeclaims", None),
    ("the status of a Job", "patch", f"{JOBS}/x/status", {}),
    ("a certificate", "post", "/apis/certificates.k8s.io/v1/certificatesigningrequests", NAMED),
    ("a label of a Job", "patch", f"{JOBS}/x", {"metadata": {"labels": {"a": "b"}}}),
    ("a ConfigMap", "patch", f"{CONFIG_MAPS}/accelkit-scheduler-keeper", {"data": {"spec.json": "{}"}}),
]


@pytest.mark.parametrize("account", [CACHES, REMEDIATION, EXTENDER, KEEPER])
async def test_stolen_token_has_no_right_to_escalate(thief_of, account):
    thief = await thief_of(account)
    taken = {}
    for what, verb, path, body in FORBIDDEN:
        refused = await find_refusal(getattr(thief, verb)(path, *(() if body is None else (body,))))
        if "cannot " not in refused:
            taken[what] = refused
    assert taken == {}
