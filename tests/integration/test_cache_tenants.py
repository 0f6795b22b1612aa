"""A tenant who would write into what pods of all namespaces read: controller and policies, as they are shipped."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cache_cluster import CacheCluster, guarding, make_pod, mount, owning
from cache_controller_process import ACCOUNT, Caches, CacheSite, cache_site, condition
from cache_definitions import CacheKinds
from conftest import Sandbox
from impersonation import acting_as, find_refusal
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.gkm import names
from accelkit.gkm.objects import Cache
from accelkit.kube.client import ApiClient
from accelkit.kube.paths import build_collection_path, build_object_path

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

RBAC = "rbac.authorization.k8s.io/v1"
# It deletes what has an owner that is not there, which a tenant may write.
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
STAYS = "until the cache controller has deleted its claims"
REFUSED = "is mounted writable, but all its pods share its files"
GATED = {"schedulingGates": [{"name": "example.com/later"}]}


@pytest.fixture(scope="module")
def site(control_plane: Sandbox, defined: CacheKinds, tmp_path_factory: pytest.TempPathFactory):
    """The policies, and a controller that is the one who they say it is."""
    controller = f"system:serviceaccount:default:{ACCOUNT}"
    with (
        guarding(control_plane.kubeconfig, controller=controller),
        cache_site(control_plane, tmp_path_factory.mktemp("site"), "--guard-seconds", "2") as site,
    ):
        yield site


class Tenant:
    """Somebody with rights in one namespace, who makes pods there."""

    def __init__(self, api: ApiClient, caches: Caches, namespace: str, repository: str, kubeconfig: Path) -> None:
        self.api, self.caches, self.namespace, self._repository = api, caches, namespace, repository
        self._kubeconfig = kubeconfig
        self._cluster = CacheCluster(api)
        self.claims = build_collection_path("v1", "persistentvolumeclaims", namespace)
        self.pods = build_collection_path("v1", "pods", namespace)

    async def cache(self, name: str) -> str:
        return await self.caches.create(self.namespace, self._repository, name=name)

    async def pod(self, pod: dict[str, Any]) -> str:
        """Create a pod that no scheduler takes, for ever; its name is returned."""
        pod["spec"] |= {"automountServiceAccountToken": False, "schedulerName": "none"}
        name: str = (await self._cluster.create(self.namespace, pod))["metadata"]["name"]
        return name

    async def delete(self, name: str) -> None:
        await self.api.delete(build_object_path(self.pods, name), {"gracePeriodSeconds": 0})

    async def refusal(self, pod: dict[str, Any]) -> str:
        return await self._cluster.refusal(self.namespace, pod)

    @asynccontextmanager
    async def with_edit_alone(self) -> AsyncIterator[ApiClient]:
        """A user who may change caches and claims in this namespace, and nothing elsewhere."""
        resources = {"gkm.io": "gkmcaches", "": "persistentvolumeclaims"}
        rules = [{"apiGroups": [group], "resources": [name], "verbs": ["*"]} for group, name in resources.items()]
        roles, bindings = (build_collection_path(RBAC, each, self.namespace) for each in ("roles", "rolebindings"))
        await self.api.post(roles, {"metadata": {"name": "caches"}, "rules": rules})
        user = f"editor-{self.namespace}"
        subjects = [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]
        role = {"kind": "Role", "name": "caches", "apiGroup": "rbac.authorization.k8s.io"}
        await self.api.post(bindings, {"metadata": {"name": "caches"}, "subjects": subjects, "roleRef": role})
        async with acting_as(self._kubeconfig, user) as api:
            listed = build_collection_path(names.API, "gkmcaches", self.namespace)
            await until(lambda: find_refusal(api.get(listed)), accept=lambda found: not found)
            yield api

    async def ours(self) -> dict[str, dict[str, Any]]:
        """Claims that the controller made."""
        claims = await self.caches.claims(self.namespace)
        return {name: each for name, each in claims.items() if each["spec"].get("volumeName")}

    async def served(self, path: str) -> Cache:
        """Wait until both claims can be mounted."""

        async def bound() -> bool:
            claims = (await self.ours()).values()
            return len(claims) == 2 and all(each["status"].get("phase") == "Bound" for each in claims)

        await until(bound)
        return await self.caches.read(path)

    async def kept_off(self, path: str, *pods: str) -> None:
        """Wait until a cache says that pods would write to its claims; it has none then."""
        cache = await self.caches.becomes(path, lambda cache: condition(cache, "Ready") == ("False", "WritablePod"))
        message = next(each.message for each in cache.status.conditions if each.type == "Ready")
        assert all(f"{self.namespace}/{each}" in message for each in pods), message
        assert await self.ours() == {}
        assert await self.caches.volumes(cache.key) == []


@pytest.fixture
async def tenant(site: CacheSite, caches: Caches) -> AsyncIterator[Tenant]:
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    account = build_object_path(build_collection_path("v1", "serviceaccounts", namespace), "default")
    await until(lambda: find_refusal(caches.api.get(account)), accept=lambda found: not found)
    async with acting_as(site.kubeconfig, "tenant", "system:masters") as api:
        made = Tenant(api, caches, namespace, repository, site.kubeconfig)
        yield made
        await api.delete(made.pods, {"gracePeriodSeconds": 0})


def in_init_container(claim: str) -> dict[str, Any]:
    init = [{"name": "first", "image": "x", "volumeMounts": [mount(subPath="a")]}]
    return make_pod(mount(readOnly=True), claim=claim, spec={"initContainers": init, **GATED})


async def test_writable_pods_older_than_policy_block_claims_of_cache(tenant: Tenant):
    reader = await tenant.pod(make_pod(mount(readOnly=True), claim="early"))
    writers = [await tenant.pod(in_init_container("early"))]
    path = await tenant.cache("early")
    while not await tenant.refusal(make_pod(mount(), claim="early")):
        # Policies learn of a cache when they do; until then, pods are let in.
        if not await find_refusal(tenant.pod(pod := make_pod(mount(), claim="early", spec=GATED))):
            writers.append(pod["metadata"]["name"])
    await tenant.kept_off(path, writers[0])
    for each in writers:
        await tenant.delete(each)
    cache = await tenant.served(path)
    assert REFUSED in await tenant.refusal(make_pod(mount(), claim="early"))
    # A pod that only reads goes on, also one that waited for it.
    assert await tenant.caches.read(path)
    assert await find_refusal(tenant.api.get(build_object_path(tenant.pods, reader))) == ""
    assert "WritablePod" in await tenant.caches.events(tenant.namespace, cache.metadata.name)


async def test_pods_admitted_during_claim_conflict_block_claims_of_cache(tenant: Tenant, site: CacheSite):
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "storageClassName": "x"}
    await tenant.api.post(tenant.claims, {"metadata": {"name": "swap"}, "spec": spec})
    path = await tenant.cache("swap")
    await tenant.caches.becomes(path, lambda cache: condition(cache, "Ready") == ("False", "ClaimExists"))
    admitted: list[str] = []

    async def let_in() -> bool:
        pod = make_pod(mount(), claim="swap", spec=GATED)
        if refusal := await find_refusal(tenant.pod(pod)):
            assert REFUSED in refusal
            return False
        admitted.append(pod["metadata"]["name"])
        return True

    await until(let_in)
    await tenant.api.delete(build_object_path(tenant.claims, "swap"))
    # Whoever comes after it knows no more than the API server does.
    site.controller.end(signal.SIGKILL)
    site.controller.start()
    await tenant.kept_off(path, *admitted)
    await tenant.delete(admitted[0])
    await tenant.served(path)
    assert REFUSED in await tenant.refusal(make_pod(mount(), claim="swap"))


@asynccontextmanager
async def without_policy(api: ApiClient, name: str) -> AsyncIterator[None]:
    """Have an admission policy bound to nothing, which an API server may notice only after a moment."""
    bindings = build_collection_path("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings")
    found = msgspec.json.decode(await api.get(build_object_path(bindings, name)))
    await api.delete(build_object_path(bindings, name))
    try:
        yield
    finally:
        metadata = {"name": name, "labels": found["metadata"].get("labels", {})}
        await api.post(bindings, {"metadata": metadata, "spec": found["spec"]})


async def is_taken(api: ApiClient, path: str, change: object) -> bool:
    """Return whether the API server takes a change."""
    try:
        await api.patch(path, change)
    except ApiError as exc:
        assert "denied request" in str(exc)  # noqa: PT017 - any other error ends the test
        return False
    return True


async def test_no_ephemeral_volume_gets_a_claim_of_a_cache(tenant: Tenant, caches: Caches):
    path = await tenant.cache("own-cache")
    await tenant.served(path)
    refusal = await tenant.refusal(owning("cache", pod="own"))
    assert "has the name of a claim of kernel cache own-cache" in refusal
    other = make_pod(mount(readOnly=True), claim="own-cache", spec=GATED)
    user = msgspec.json.decode(await tenant.api.get(build_object_path(tenant.pods, await tenant.pod(other))))
    # A claim whose owner is not there would be collected.
    owner = {"apiVersion": "v1", "kind": "Pod", **{key: user["metadata"][key] for key in ("name", "uid")}}
    owner["controller"] = True
    change = {"metadata": {"ownerReferences": [owner]}}
    claims = [build_object_path(tenant.claims, name) for name in await tenant.ours()]
    for claim in claims:
        assert "the claim of a kernel cache must have no owner" in await find_refusal(tenant.api.patch(claim, change))
    # Owners of before there was the policy.
    async with without_policy(caches.api, "accelkit-cache-volumes"):
        for claim in claims:
            await until(partial(is_taken, caches.api, claim, change))
    await until(
        tenant.ours,
        accept=lambda found: not any(each["metadata"].get("ownerReferences") for each in found.values()),
    )
    assert len(await tenant.ours()) == 2


async def test_tenant_cannot_keep_claim_of_cache_by_finalizer(tenant: Tenant):
    await tenant.served(await tenant.cache("kept"))
    claims = await tenant.ours()
    async with tenant.with_edit_alone() as editor:
        for name, claim in claims.items():
            path, held = build_object_path(tenant.claims, name), claim["metadata"]["finalizers"]
            change = {"metadata": {"finalizers": [*held, "example.com/keep"]}}
            assert "must have no finalizers of tenants" in await find_refusal(editor.patch(path, change))
            # Other changes of a claim stay allowed, and so do finalizers of controllers of the cluster.
            await editor.patch(path, {"metadata": {"annotations": {"example.com/note": "mine"}}})
            await tenant.api.patch(path, change)
            await editor.patch(path, {"metadata": {"finalizers": held}})


async def test_older_pod_with_ephemeral_volume_blocks_claims_of_cache(tenant: Tenant):
    pod = owning("cache", pod="own")
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "cache", "mountPath": "/cache"}]
    pod["spec"] |= GATED
    await tenant.pod(pod)
    path = await tenant.cache("own-cache")
    # Its claim is the pod's, and is made anew where it is deleted; between both it is nobody's.
    await tenant.caches.becomes(path, lambda cache: condition(cache, "Ready")[1] in {"ClaimExists", "WritablePod"})
    await find_refusal(tenant.api.delete(build_object_path(tenant.claims, "own-cache")))
    # One that is made later, and gets its claims later.
    await tenant.served(await tenant.cache("beside"))
    assert all(name.startswith("beside") for name in await tenant.ours())


async def test_cache_is_not_deleted_before_its_claims(tenant: Tenant, site: CacheSite):
    """Without it no policy would know of them; who deletes it in a moment could make it anew in the next."""
    path = await tenant.cache("kernels")
    await tenant.served(path)
    reader = await tenant.pod(make_pod(mount(readOnly=True)))
    bare: dict[str, Any] = {"metadata": {"finalizers": None}}
    async with tenant.with_edit_alone() as editor:
        site.controller.end(signal.SIGTERM)
        await editor.patch(path, bare)
        try:
            assert STAYS in await find_refusal(editor.delete(path))
            async with acting_as(site.kubeconfig, COLLECTOR) as collector:
                assert STAYS in await find_refusal(collector.delete(path))
            assert REFUSED in await tenant.refusal(make_pod(mount()))
        finally:
            site.controller.start()
        await tenant.caches.becomes(path, lambda cache: cache.metadata.finalizers)
        await editor.delete(path)
        await tenant.caches.becomes(path, lambda cache: condition(cache, "Ready")[1] == "InUse")
        assert STAYS in await find_refusal(editor.patch(path, bare))
        await tenant.delete(reader)
        await tenant.caches.gone(path)
    assert await tenant.ours() == {}


async def test_pods_created_with_their_cache_do_not_block_claims(
    tenant: Tenant, site: CacheSite, caches: Caches, tmp_path: Path
):
    """As in one file with it: an init container that sets rights, and a container that compiles."""
    init = [{"name": "fix-permissions", "image": "x", "volumeMounts": [mount()]}]
    async with site.serve_webhook(caches.api, tmp_path):
        await tenant.cache("kernels")
        for _ in range(3):
            pod = make_pod(mount(), spec={"initContainers": init})
            made = msgspec.json.decode(await tenant.api.get(build_object_path(tenant.pods, await tenant.pod(pod))))
            sources = [each["persistentVolumeClaim"] for each in made["spec"]["volumes"] if "emptyDir" not in each]
            assert [each.get("readOnly") for each in sources] == [True]
        await until(
            tenant.ours,
            accept=lambda claims: claims.get("kernels", {}).get("status", {}).get("phase") == "Bound",
        )
