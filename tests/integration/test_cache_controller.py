"""`accelkit cache-controller` on a real API server: what it makes of caches, and what it leaves alone."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest
from aiohttp import web
from cache_controller_process import CacheController, Caches, client_of, condition
from cache_definitions import cache_definitions
from conftest import Sandbox
from extender_process import until
from private_sigstore import PrivateSigstore
from registries.caches import sign
from registries.hostile import HostileRegistry

from accelkit.gkm import names
from accelkit.gkm.objects import Cache
from accelkit.kube.paths import build_collection_path, build_object_path

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]
MANY = 200
MOMENT = "2026-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def crds(control_plane: Sandbox):
    """The sandbox with the CRDs, which are gone at the end."""

    with cache_definitions(control_plane, "cache-controller"):
        yield control_plane


@pytest.fixture(scope="module")
def origin():
    """A registry in this process, which tells what it was asked."""
    with HostileRegistry() as registry:
        yield registry


@pytest.fixture(scope="module")
def signer():
    """Whose key policies name."""
    return PrivateSigstore.new().key()


@pytest.fixture(scope="module")
def controller(crds: Sandbox, origin: HostileRegistry, tmp_path_factory: pytest.TempPathFactory):
    """A controller that judges anew every two seconds."""
    folder = tmp_path_factory.mktemp("controller")
    options = ["--plain-http", origin.host, "--judge-again-seconds", "2"]
    with CacheController(crds.kubeconfig, folder, *options) as process:
        yield process


@pytest.fixture
async def caches(controller: CacheController, crds: Sandbox, origin: HostileRegistry, signer, tmp_path):
    """What a test makes, deleted at its end."""
    async with client_of(crds.kubeconfig) as api:
        made = Caches(api, origin, tmp_path, signer)
        try:
            yield made
        finally:
            await made.close()


def digest_of(cache: Cache) -> str:
    return cache.status.resolved_digest


def refuse() -> web.Response:
    return web.Response(status=503)


async def test_a_signed_image_gets_a_digest_and_its_namespace_gets_claims(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    image = await caches.publish(repository, signer=caches.signer)
    policy = await caches.policy(caches.images(repository))
    path = await caches.create(namespace, repository, name="kernels")
    cache = await caches.becomes(path, lambda cache: cache.status.counts and condition(cache, "Verified")[0] == "True")
    assert digest_of(cache) == image.digest
    assert cache.status.resolved_image == cache.spec.image
    assert cache.status.mount_path == "/cache"
    assert cache.status.delivery == "node"
    assert cache.status.cache_bytes > 0
    assert cache.status.verification is not None
    assert cache.status.verification.signatures[0]["policy"] == policy
    assert cache.metadata.finalizers == [names.FINALIZER]
    pinned = names.name_pinned_claim(cache.key, image.digest)

    async def bound() -> bool:
        claims = await caches.claims(namespace)
        return {name for name, each in claims.items() if each["status"]["phase"] == "Bound"} == {"kernels", pinned}

    await until(bound)
    # No agent runs here, so no node has the files.
    await caches.becomes(path, lambda cache: condition(cache, "Ready") == ("False", "Pending"))
    paths = {each["spec"]["claimRef"]["name"]: each["spec"]["hostPath"] for each in await caches.volumes(cache.key)}
    assert paths == {
        "kernels": {"path": names.build_link_path(cache.key), "type": "Directory"},
        pinned: {"path": names.build_cache_path(image.digest, "/cache"), "type": "Directory"},
    }

    async def told() -> bool:
        return {"Resolved", "Verified"} <= await caches.events(namespace, "kernels")

    await until(told)


async def test_what_nodes_report_makes_a_cache_ready(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    image = await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    path = await caches.create(namespace, repository, name="kernels")
    reports = build_collection_path(names.API, "gkmcachenodes", namespace)
    for node in ("node-1", "node-that-is-gone"):
        await caches.api.post(reports, {"apiVersion": names.API, "kind": "GKMCacheNode", "metadata": {"name": node}})
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": MOMENT}
        entry = {"conditions": [ready], "pods": [{"podName": "a"}]}
        status = {"nodeName": node, "caches": {"kernels": {image.digest: entry}, "other": {image.digest: entry}}}
        await caches.api.patch(f"{build_object_path(reports, node)}/status", {"status": status})
    cache = await caches.becomes(path, lambda cache: condition(cache, "Ready") == ("True", "Ready"))
    assert (cache.status.counts.node_cnt, cache.status.counts.pod_running_cnt) == (1, 1)
    assert "Ready" in await caches.events(namespace, "kernels")


async def test_an_unsigned_image_is_refused_and_nothing_of_it_is_fetched(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    image = await caches.publish(repository)
    await caches.policy(caches.images(repository))
    caches.registry.requests.clear()
    path = await caches.create(namespace, repository)
    cache = await caches.becomes(path, lambda cache: condition(cache, "Verified")[0] == "False")
    assert condition(cache, "Verified") == condition(cache, "Ready") == ("False", "NoSignatures")
    assert digest_of(cache) == ""
    assert await caches.claims(namespace) == {}
    assert caches.registry.received("GET", f"/v2/{repository}/manifests/.*")
    assert not caches.registry.received("GET", f"/v2/{repository}/blobs/.*")
    await asyncio.to_thread(sign, caches.registry.host, image, caches.signer, repository)
    await caches.becomes(path, lambda cache: digest_of(cache) == image.digest)


async def test_an_image_that_no_policy_covers_is_not_even_asked_for(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    image = await caches.publish(repository, signer=caches.signer)
    caches.registry.requests.clear()
    path = await caches.create(namespace, repository)
    await caches.becomes(path, lambda cache: condition(cache, "Verified") == ("False", "NotCovered"))
    assert not caches.registry.received("*", f"/v2/{repository}/.*")
    policy = await caches.policy(caches.images(repository))
    await caches.becomes(path, lambda cache: digest_of(cache) == image.digest)
    await caches.api.delete(build_object_path(names.SIGNER_POLICIES, policy))
    cache = await caches.becomes(path, lambda cache: condition(cache, "Verified") == ("False", "NotCovered"))
    assert (digest_of(cache), cache.status.verification) == ("", None)

    async def withdrawn() -> bool:
        return not await caches.claims(namespace)

    await until(withdrawn)


async def test_a_changed_policy_has_its_images_judged_anew(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    image = await caches.publish(repository, signer=caches.signer)
    images = caches.images(repository)
    await caches.policy(images)
    path = await caches.create(namespace, repository)
    await caches.becomes(path, lambda cache: digest_of(cache) == image.digest)
    other = await caches.policy(images, PrivateSigstore.new().key())
    await caches.becomes(path, lambda cache: condition(cache, "Verified") == ("False", "SignatureInvalid"))
    broken = {"spec": {"images": [images], "signers": [{"key": {"data": "no key"}}]}}
    await caches.api.patch(build_object_path(names.SIGNER_POLICIES, other), broken)
    await caches.becomes(path, lambda cache: condition(cache, "Verified") == ("False", "PolicyUnreadable"))
    await caches.api.delete(build_object_path(names.SIGNER_POLICIES, other))
    await caches.becomes(path, lambda cache: digest_of(cache) == image.digest)


async def test_a_tag_that_moves_is_followed_to_what_is_signed_alone(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    first = await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    path = await caches.create(namespace, repository, name="kernels")
    cache = await caches.becomes(path, lambda cache: digest_of(cache) == first.digest)
    claim = names.name_pinned_claim(cache.key, first.digest)

    async def made() -> bool:
        return claim in await caches.claims(namespace)

    await until(made)
    await caches.pod(namespace, claim)
    await caches.publish(repository, kernel="unsigned")
    cache = await caches.becomes(path, lambda cache: condition(cache, "Degraded") == ("True", "NoSignatures"))
    assert digest_of(cache) == first.digest
    assert condition(cache, "Verified")[0] == "True"
    second = await caches.publish(repository, kernel="signed", signer=caches.signer)
    cache = await caches.becomes(path, lambda cache: digest_of(cache) == second.digest)
    # A pod has the first one's claim.
    assert cache.status.previous_digests == [first.digest]
    await caches.becomes(path, lambda cache: condition(cache, "Degraded")[0] == "False")
    assert claim in await caches.claims(namespace)


async def test_a_registry_that_is_away_is_asked_again_and_takes_nothing_back(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    image = await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    away = [True]
    caches.registry.on("GET", f"/v2/{repository}/.*", lambda _: refuse() if away[0] else None)
    path = await caches.create(namespace, repository)
    cache = await caches.becomes(path, lambda cache: condition(cache, "Resolved")[1] == "RegistryUnavailable")
    assert condition(cache, "Verified") == ("False", "RegistryUnavailable")
    away[0] = False
    await caches.becomes(path, lambda cache: digest_of(cache) == image.digest)
    away[0] = True
    cache = await caches.becomes(path, lambda cache: condition(cache, "Resolved")[1] == "RegistryUnavailable")
    assert digest_of(cache) == image.digest
    assert condition(cache, "Verified")[0] == "True"


async def test_a_namespace_that_comes_later_gets_its_claims_then(caches: Caches):
    here, later, repository = await caches.namespace(), caches.unique("later"), f"{caches.unique('team')}/app"
    await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    path = await caches.create("", repository, workloadNamespaces=[here, later])
    name = path.rpartition("/")[2]

    def missing(cache) -> bool:
        states = cache.status.pvc_status
        return later in states and states[later].conditions[0].reason == "NamespaceMissing"

    cache = await caches.becomes(path, missing)
    assert name in await caches.claims(here)
    assert cache.status.pvc_status[here].pvc_owner == "Agent"
    await caches.namespace(later)

    async def made() -> bool:
        return name in await caches.claims(later)

    await until(made)


async def test_a_claim_of_another_is_not_touched(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    claims = build_collection_path("v1", "persistentvolumeclaims", namespace)
    key = f"{namespace}/kernels"
    # It says of itself that it is ours.
    meta = {"name": "kernels", "labels": names.build_labels(key), "annotations": {names.CACHE_ANNOTATION: key}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}, "storageClassName": ""}
    await caches.api.post(claims, {"metadata": meta, "spec": spec})
    before = (await caches.claims(namespace))["kernels"]
    path = await caches.create(namespace, repository, name="kernels")
    cache = await caches.becomes(path, lambda cache: condition(cache, "Ready") == ("False", "ClaimExists"))
    assert condition(cache, "Verified")[0] == "True"
    assert all(each["spec"]["claimRef"]["name"] != "kernels" for each in await caches.volumes(key))
    # A pod that mounts it does not keep the cache, and the deletion leaves the claim.
    await caches.pod(namespace, "kernels")
    await caches.api.delete(path)
    await caches.gone(path)
    after = (await caches.claims(namespace))["kernels"]
    assert (after["spec"], after["metadata"]["uid"]) == (before["spec"], before["metadata"]["uid"])
    assert "deletionTimestamp" not in after["metadata"]


async def test_a_tenant_who_deletes_or_strips_our_claim_gets_it_anew(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    await caches.create(namespace, repository, name="kernels")
    claim = build_object_path(build_collection_path("v1", "persistentvolumeclaims", namespace), "kernels")

    def bound(uid: str = ""):
        async def question() -> str:
            found = (await caches.claims(namespace)).get("kernels")
            if found is None or found["status"].get("phase") != "Bound" or found["metadata"]["uid"] == uid:
                return ""
            return str(found["metadata"]["uid"])

        return question

    uid = await until(bound())
    await caches.api.delete(claim)
    second = await until(bound(uid))
    assert second != uid
    await caches.api.patch(claim, {"metadata": {"labels": dict.fromkeys(names.build_labels("a/b"))}})

    async def labelled() -> bool:
        meta = (await caches.claims(namespace))["kernels"]["metadata"]
        return meta.get("labels", {}).get(names.CACHE_LABEL) == "kernels" and meta["uid"] == second

    await until(labelled)


async def test_a_cache_in_use_waits_for_its_pods_and_leaves_nothing(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    path = await caches.create(namespace, repository, name="kernels")

    async def made() -> bool:
        return len(await caches.claims(namespace)) == 2

    await until(made)
    pod = await caches.pod(namespace, "kernels")
    await caches.api.delete(path)
    cache = await caches.becomes(path, lambda cache: condition(cache, "Ready")[1] == "InUse")
    assert f"{namespace}/user" in cache.status.conditions[0].message
    assert len(await caches.claims(namespace)) == 2
    await caches.api.delete(pod, {"gracePeriodSeconds": 0})
    await caches.gone(path)

    async def nothing() -> bool:
        return not await caches.claims(namespace) and not await caches.volumes(cache.key)

    await until(nothing)


async def test_a_controller_that_is_killed_goes_on(caches: Caches, controller: CacheController):
    namespace, team = await caches.namespace(), caches.unique("team")
    repositories = [f"{team}/app-{number}" for number in range(3)]
    images = [await caches.publish(each, kernel=f"k{n}", signer=caches.signer) for n, each in enumerate(repositories)]
    await caches.policy(f"{caches.registry.host}/{team}/**")
    paths = []
    for each in repositories:
        paths.append(await caches.create(namespace, each))
        # At whatever step it is: the Lease was its own, so it leads again at once.
        controller.end(signal.SIGKILL)
        controller.start()
    for path, image in zip(paths, images, strict=True):
        cache = await caches.becomes(path, lambda cache, image=image: digest_of(cache) == image.digest)
        assert cache.metadata.finalizers == [names.FINALIZER]

    async def all_there() -> bool:
        claims = await caches.claims(namespace)
        return len([each for each in claims.values() if each["status"].get("phase") == "Bound"]) == 6

    await until(all_there)


async def test_two_hundred_caches_at_once(caches: Caches):
    namespace, team = await caches.namespace(), caches.unique("team")
    image = await caches.publish(f"{team}/app", signer=caches.signer)
    await caches.policy(caches.images(f"{team}/app"))
    await asyncio.gather(*(caches.create(namespace, f"{team}/app", kept=True) for _ in range(MANY)))
    collection = build_collection_path(names.API, "gkmcaches", namespace)

    async def all_verified() -> bool:
        return (await caches.api.get(collection)).count(f'"resolvedDigest":"{image.digest}"'.encode()) == MANY

    await until(all_verified, seconds=120, every=0.5)

    async def all_made() -> bool:
        return len(await caches.claims(namespace)) == 2 * MANY

    await until(all_made, seconds=120, every=0.5)
    await caches.api.delete(collection)

    async def nothing() -> bool:
        return not json.loads(await caches.api.get(collection))["items"] and not await caches.claims(namespace)

    await until(nothing, seconds=120, every=0.5)
