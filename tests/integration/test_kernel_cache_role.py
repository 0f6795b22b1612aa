"""The role kernel_cache on a real API server: what it makes, holds to, keeps for users, and takes away again."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Collection
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cache_controller_process import Caches, condition, digest_of
from cluster_objects import as_before, changed, objects, settled_objects
from conftest import Sandbox, ansible_playbook
from impersonation import acting_as
from private_sigstore import PrivateSigstore
from registries.hostile import HostileRegistry
from support.waiting import until
from webhook_registration import CONFIGURATIONS

from accelkit.cachecontroller.webhook.server import PATH
from accelkit.errors import ApiError
from accelkit.gkm.names import CACHES, SIGNER_POLICIES
from accelkit.install.certificates.issuing import Authority
from accelkit.kube.client import ApiClient
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path
from accelkit.model.keys import CACHE_FINALIZER

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

DEFINITIONS = build_collection_path("apiextensions.k8s.io/v1", "customresourcedefinitions")
ROLE = "accelkit.kubernetes.kernel_cache"
CONTROLLER, AGENT = (f"system:serviceaccount:accelkit:accelkit-cache-{name}" for name in ("controller", "agent"))
# The policies of that account, whichever of them refuses.
BOUNDED = "ValidatingAdmissionPolicy 'accelkit-cache-controller"
NODE_NAME = "authentication.kubernetes.io/node-name"
SIGNER = {"name": "ci", "keyless": {"issuer": "https://i.example", "subject": "https://s.example"}}
SPEC = {"images": ["quay.io/acme/**"], "signers": [SIGNER]}
SETTINGS = {
    "kernel_cache_webhook": False,
    "kernel_cache_metrics_port": 0,
    "kernel_cache_agent_former_user": 0,
    "kernel_cache_timeout": 60,
    "kernel_cache_pull_secret_namespaces": ["default"],
    "kernel_cache_signer_policies": [{"name": "acme", "spec": SPEC}],
}


class Role:
    """Runs the role against a sandbox."""

    def __init__(self, sandbox: Sandbox, folder: Path, registry: HostileRegistry) -> None:
        self._sandbox, self.folder, self.registry = sandbox, folder, registry

    def run(self, entry: str, *, check: bool = True, **settings: Any) -> str:
        task = {"ansible.builtin.import_role": {"name": ROLE, "tasks_from": entry}}
        plain = {"kernel_cache_registry_plain_http": [self.registry.host]}
        given = {**SETTINGS, **plain, "kernel_cache_image": self._sandbox.facts.image, **settings}
        play = {"hosts": "localhost", "gather_facts": False, "vars": given, "tasks": [task]}
        play["vars"]["ansible_python_interpreter"] = "{{ ansible_playbook_python }}"
        path = self.folder / "play.json"
        path.write_text(json.dumps([play]))
        done = ansible_playbook(path, environ=self._sandbox.environ, seconds=400)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done.stdout


async def is_refused(api: ApiClient, path: str, body: Any, *, by: str) -> None:
    with pytest.raises(ApiError) as caught:
        await api.post(path, body)
    assert by in str(caught.value)


async def create_namespace(api):
    """Create the namespace of the role; return whether it is there."""
    try:
        await api.post("/api/v1/namespaces", {"metadata": {"name": "accelkit"}})
    except ApiError as exc:
        if not exc.conflict:
            raise
        return False
    return True


@pytest.fixture
async def role(control_plane, cache_kinds, api, tmp_path):
    """The role, on a cluster with its namespace and a shared node, and without kinds of caches."""
    await cache_kinds.forget()
    # A test that ran before may have deleted it a moment ago.
    await until(lambda: create_namespace(api))
    await api.patch("/api/v1/nodes/node-1", {"metadata": {"labels": {"accelkit.io/share": "true"}}})
    try:
        await until(lambda: all_namespaces_stay(api))
        with HostileRegistry() as registry:
            yield Role(control_plane, tmp_path, registry)
    finally:
        await api.patch("/api/v1/nodes/node-1", {"metadata": {"labels": {"accelkit.io/share": None}}})
        await api.delete("/api/v1/namespaces/accelkit")


async def test_the_role_is_applied_and_removed(control_plane, api, role):
    before = await settled_objects(control_plane)
    try:
        role.run("main")
        await serves_with_its_own_token(api, role)
    finally:
        role.run("remove", kernel_cache_purge=True)
    await as_before(control_plane, before)


@pytest.mark.extended
async def test_role_is_applied_enforces_policies_and_is_removed_completely(control_plane, api, role):
    before = await settled_objects(control_plane)
    try:
        await refuses_what_others_made(api, role)
        authority = await leave_a_former_configuration(api)
        # The sandbox mounts no Secrets, so no controller serves the webhook here.
        role.run("apply", kernel_cache_webhook=True)
        await applied_the_whole_configuration(api, authority)
        assert changed(role.run("main")) > 0
        assert changed(role.run("main")) == 0
        assert await get_if_present(api, f"{CONFIGURATIONS}/accelkit-cache-controller") is None
        await holds_who_it_bounds(control_plane, api)
        await serves_with_its_own_token(api, role)
        await keeps_what_users_made(api, role)
        await goes_without_a_trace(control_plane, api, role, before)
    except BaseException:
        # Its policies would refuse what other tests do on this cluster.
        role.run("remove", check=False, kernel_cache_purge=True)
        raise


async def leave_a_former_configuration(api: ApiClient) -> bytes:
    """Create the webhook's Secret, and the configuration of a release whose controller wrote it; return the authority.

    A thief of that controller's token has added a webhook for all pods.
    """
    authority = Authority("webhook")
    pair = authority.issue_server("webhook", ["accelkit-cache-controller.accelkit.svc"])
    data = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
    secret = {
        "metadata": {"name": "accelkit-cache-webhook-tls"},
        "type": "kubernetes.io/tls",
        "data": {key: b64encode(value).decode() for key, value in data.items()},
    }
    await api.post(build_collection_path("v1", "secrets", "accelkit"), secret)
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    former = {
        "clientConfig": {"service": {"namespace": "accelkit", "name": "accelkit-cache-controller", "path": "/x"}},
        "rules": [pods],
        "matchConditions": [{"name": "never", "expression": "false"}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    labels = {"app.kubernetes.io/part-of": "accelkit", "app.kubernetes.io/managed-by": "ansible"}
    metadata = {"name": "accelkit-cache-controller", "labels": labels}
    definition = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    applied = {**definition, "metadata": metadata}
    noted = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(applied)}
    names = ("pods.cache.accelkit.io", "caches.cache.accelkit.io", "stolen.attacker.example")
    webhooks = [{**former, "name": name} for name in names]
    body = {**definition, "metadata": {**metadata, "annotations": noted}, "webhooks": webhooks}
    await api.post(CONFIGURATIONS, body)
    return authority.certificate


async def applied_the_whole_configuration(api: ApiClient, authority: bytes) -> None:
    """It replaced each webhook of the former one."""
    path = f"{CONFIGURATIONS}/accelkit-cache-controller"
    (webhook,) = msgspec.json.decode(await api.get(path))["webhooks"]
    assert (webhook["name"], webhook["failurePolicy"]) == ("pods.cache.accelkit.io", "Ignore")
    assert webhook["clientConfig"]["service"]["path"] == PATH
    assert b64decode(webhook["clientConfig"]["caBundle"]) == authority


async def all_namespaces_stay(api: ApiClient) -> bool:
    """Whether none is being deleted, of what another test left."""
    found = msgspec.json.decode(await api.get("/api/v1/namespaces"))["items"]
    return not [each for each in found if "deletionTimestamp" in each["metadata"]]


async def refuses_what_others_made(api: ApiClient, role: Role) -> None:
    """A definition of the same name that accelkit did not make."""
    names = {"kind": "GKMCache", "listKind": "GKMCacheList", "plural": "gkmcaches", "singular": "gkmcache"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "gkm.io", "scope": "Namespaced", "names": names, "versions": [version]}
    await api.post(DEFINITIONS, {"metadata": {"name": "gkmcaches.gkm.io"}, "spec": spec})
    said = " ".join(role.run("preflight", check=False).split())
    assert "the cluster already contains the resource definitions gkmcaches.gkm.io" in said
    assert "set kernel_cache_adopt: true" in said
    await api.delete(f"{DEFINITIONS}/gkmcaches.gkm.io")
    await gone(api, f"{DEFINITIONS}/gkmcaches.gkm.io")


async def gone(api: ApiClient, path: str) -> None:
    await until(lambda: get_if_present(api, path), accept=lambda found: found is None, every=0.2)


async def holds_who_it_bounds(sandbox: Sandbox, api: ApiClient) -> None:
    """Agents to their own node, the controller to its folder, everybody else from the status."""
    cache = {"metadata": {"name": "kept"}, "spec": {"image": "quay.io/acme/cache:v1"}}
    caches = build_collection_path("gkm.io/v1alpha1", "gkmcaches", "default")
    await api.post(caches, {"apiVersion": "gkm.io/v1alpha1", "kind": "GKMCache", **cache})
    with pytest.raises(ApiError, match="only the cache controller may write the status"):
        await api.patch(f"{caches}/kept/status", {"status": {"resolvedDigest": f"sha256:{'0' * 64}"}})

    # The garbage collector deletes a report whose Node is not there.
    node = msgspec.json.decode(await api.post("/api/v1/nodes", {"metadata": {"name": "node-2"}}))
    try:
        await holds_agents(sandbox, caches, node["metadata"]["uid"])
    finally:
        await api.delete("/api/v1/nodes/node-2")

    labels = {"app.kubernetes.io/component": "kernel-cache"}
    async with acting_as(sandbox.kubeconfig, CONTROLLER) as controller:
        for path in ("/etc", "/var/lib/accelkit/kernel-caches", "/var/lib/accelkit/kernel-caches-2/x"):
            await is_refused(controller, "/api/v1/persistentvolumes", volume(path, labels), by=BOUNDED)
        await is_refused(
            controller, "/api/v1/persistentvolumes", volume("/var/lib/accelkit/kernel-caches/x", {}), by=BOUNDED
        )
        jobs = build_collection_path("batch/v1", "jobs", "accelkit")
        for pod in (
            {"containers": [{"name": "c", "image": "evil"}]},
            {"hostNetwork": True, "containers": []},
            {"volumes": [{"name": "v", "secret": {"secretName": "accelkit-ca"}}]},
        ):
            container = {"name": "c", "image": sandbox.facts.image}
            whole = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container], **pod}
            whole["containers"] = whole["containers"] or [container]
            job = {"metadata": {"name": "j", "labels": labels}, "spec": {"template": {"spec": whole}}}
            await is_refused(controller, jobs, job, by=BOUNDED)
        with pytest.raises(ApiError, match="forbidden"):
            await controller.post(build_collection_path("batch/v1", "jobs", "default"), {"metadata": {"name": "j"}})


async def holds_agents(sandbox: Sandbox, caches: str, uid: str) -> None:
    """To their own node, which is node-2 with this UID."""
    reports = build_collection_path("gkm.io/v1alpha1", "gkmcachenodes", "default")
    kind = {"apiVersion": "gkm.io/v1alpha1", "kind": "GKMCacheNode"}
    async with acting_as(sandbox.kubeconfig, AGENT, extra={NODE_NAME: "node-2"}) as agent:
        other = {**kind, "metadata": {"name": "node-1"}}
        await is_refused(agent, reports, other, by="may report only its node")
        owned = {**kind, "metadata": {"name": "node-2", "finalizers": ["a.example/b"]}}
        await is_refused(agent, reports, owned, by="no finalizers")
        of_other = {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "u"}
        for owner in (of_other, {**of_other, "name": "node-2", "controller": True}, {**of_other, "kind": "ConfigMap"}):
            owned = {**kind, "metadata": {"name": "node-2", "ownerReferences": [owner]}}
            await is_refused(agent, reports, owned, by="no owner except its node")
        for labels in ({"kubernetes.io/hostname": "node-1"}, {"accelkit.io/other": "node-2"}):
            labelled = {**kind, "metadata": {"name": "node-2", "labels": labels}}
            await is_refused(agent, reports, labelled, by="no label except its node's name")
        owner = {**of_other, "name": "node-2", "uid": uid}
        own = {"name": "node-2", "ownerReferences": [owner], "labels": {"kubernetes.io/hostname": "node-2"}}
        await agent.post(reports, {**kind, "metadata": own})
        await agent.patch(f"{reports}/node-2/status", {"status": {"nodeName": "node-2"}})
        with pytest.raises(ApiError, match="must name its own node"):
            await agent.patch(f"{reports}/node-2/status", {"status": {"nodeName": "node-1"}})
        for path in (f"{caches}/kept", f"{caches}/kept/status"):
            with pytest.raises(ApiError, match="forbidden"):
                await agent.patch(path, {"metadata": {"labels": {"a": "b"}}})
        with pytest.raises(ApiError, match="forbidden"):
            await agent.get("/api/v1/namespaces/accelkit/secrets/accelkit-ca")


async def serves_with_its_own_token(api: ApiClient, role: Role) -> None:
    """The controller runs as a pod: what its roles lack is missing here."""
    signer = PrivateSigstore.new().key()
    caches = Caches(api, role.registry, role.folder, signer)
    storage = build_collection_path("storage.k8s.io/v1", "storageclasses")
    await api.post(storage, {"metadata": {"name": "nobodys"}, "provisioner": "nobody.example/storage"})
    try:
        await caches.publish("team/cache", signer=signer)
        await caches.policy(caches.images("team/cache"))
        path = await caches.create("default", "team/cache", name="served")
        cache = await caches.becomes(path, lambda cache: cache.status.pvc_status and digest_of(cache))
        assert condition(cache, "Verified")[0] == "True"
        await until(lambda: has(caches.claims("default"), "served"))
        # Each is for the UID of its claim.
        await until(lambda: has(caches.volumes("default/served")))
        assert {each["spec"]["hostPath"]["type"] for each in await caches.volumes("default/served")} == {"Directory"}
        await until(lambda: has(caches.events("default", "served"), "Verified"))
        # Filled in accelkit's own namespace, where it lists Jobs, ConfigMaps and Events.
        modes = ["ReadWriteOnce", "ReadOnlyMany"]
        await caches.create("default", "team/cache", name="filled", storageClassName="nobodys", accessModes=modes)
        await until(lambda: has(caches.claims("accelkit")))
    finally:
        await caches.close()
        await api.delete(f"{storage}/nobodys")
    await until(lambda: lacks(caches.claims("accelkit")))


async def has(found: Awaitable[Collection[str]], name: str = "") -> bool:
    """Whether anything is there, or something of this name."""
    seen = await found
    return name in seen if name else bool(seen)


async def lacks(found: Awaitable[Collection[str]]) -> bool:
    """Whether nothing is there."""
    return not await has(found)


def volume(path: str, labels: dict[str, str]) -> dict[str, Any]:
    spec = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": path, "type": "Directory"},
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": "default", "name": "kept"},
    }
    return {"metadata": {"name": "refused", "labels": labels}, "spec": spec}


async def keeps_what_users_made(api: ApiClient, role: Role) -> None:
    """Without the controller nobody would take its finalizer off."""
    path = f"{CACHES.replace('/gkmcaches', '/namespaces/default/gkmcaches')}/kept"
    await api.post(SIGNER_POLICIES, {"apiVersion": "accelkit.io/v1alpha1", "kind": "SignerPolicy"} | own("mine"))
    cache = msgspec.json.decode(await api.get(path))
    assert cache["metadata"]["finalizers"] == [CACHE_FINALIZER]
    said = " ".join(role.run("remove").split())
    assert "GKMCache default kept, SignerPolicy mine belong to users and were not deleted" in said
    cache = msgspec.json.decode(await api.get(path))
    assert CACHE_FINALIZER not in cache["metadata"].get("finalizers", [])
    policies = msgspec.json.decode(await api.get(SIGNER_POLICIES))["items"]
    assert [each["metadata"]["name"] for each in policies] == ["mine"]


async def let_in_a_pod(api: ApiClient) -> None:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "somebodys"}}
    spec = {"containers": [{"name": "main", "image": "busybox"}], "volumes": [volume]}
    path = build_collection_path("v1", "pods", "default")
    await api.post(path, {"metadata": {"name": "beside"}, "spec": spec}, query={"dryRun": "All"})


def own(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": SPEC}


async def goes_without_a_trace(sandbox: Sandbox, api: ApiClient, role: Role, before: dict[str, Any]) -> None:
    # A policy refuses all pods once the kind of its parameters is gone, so policies go first.
    removal = asyncio.create_task(asyncio.to_thread(role.run, "remove", kernel_cache_purge=True))
    while not removal.done():
        await let_in_a_pod(api)
        await asyncio.wait([removal], timeout=0.1)
    assert changed(await removal) > 0

    async def list_differences():
        await let_in_a_pod(api)
        after = await objects(sandbox)
        return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}

    await until(list_differences, accept=lambda differing: not differing, every=0.5)
