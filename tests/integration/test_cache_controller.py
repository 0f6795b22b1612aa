"""What `accelkit cache-controller` makes of images, on a real API server: digests, verdicts, and what it leaves be."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from aiohttp import web
from cache_controller_process import Caches, CacheSite, condition, digest_of
from private_sigstore import PrivateSigstore
from registries import misbehaviour
from registries.caches import sign
from support.waiting import until

from accelkit.gkm import names
from accelkit.kube.objects import get_if_present
from accelkit.kube.paths import build_collection_path, build_object_path, build_secrets_path
from accelkit.model.keys import CACHE_FINALIZER, CACHE_PINNED_ANNOTATION

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
MOMENT = "2026-01-01T00:00:00Z"


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
    assert cache.metadata.finalizers == [CACHE_FINALIZER]
    pinned = names.name_pinned_claim(cache.key, image.digest)
    await until(
        lambda: caches.claims(namespace),
        accept=lambda claims: (
            {name for name, each in claims.items() if each["status"]["phase"] == "Bound"} == {"kernels", pinned}
        ),
    )
    # No agent runs here, so no node has the files.
    await caches.becomes(path, lambda cache: condition(cache, "Ready") == ("False", "Pending"))
    paths = {each["spec"]["claimRef"]["name"]: each["spec"]["hostPath"] for each in await caches.volumes(cache.key)}
    assert paths == {
        "kernels": {"path": names.build_volume_path(cache.key, namespace), "type": "Directory"},
        pinned: {
            "path": names.build_volume_path(cache.key, namespace, image.digest, "/cache"),
            "type": "Directory",
        },
    }
    await until(lambda: caches.events(namespace, "kernels"), accept=lambda found: {"Resolved", "Verified"} <= found)


async def test_node_reports_make_cache_ready(caches: Caches):
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
    await until(lambda: caches.events(namespace, "kernels"), accept=lambda found: "Ready" in found)


async def test_unsigned_image_is_refused_and_no_blob_is_downloaded(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    image = await caches.publish(repository)
    await caches.policy(caches.images(repository))
    caches.registry.requests.clear()
    pinned = f"{caches.registry.host}/{repository}@{image.digest}"
    # As GKM's admission writes them, and as whoever creates the cache can.
    claimed = {"gkm.io/resolvedDigest": image.digest, "kyverno.io/verify-images": json.dumps({pinned: "pass"})}
    path = await caches.create(namespace, repository, annotations=claimed)
    cache = await caches.becomes(path, lambda cache: condition(cache, "Verified")[0] == "False")
    assert condition(cache, "Verified") == condition(cache, "Ready") == ("False", "NoSignatures")
    assert digest_of(cache) == ""
    assert json.loads(await caches.api.get(path))["metadata"]["annotations"] == claimed
    assert await caches.claims(namespace) == {}
    assert caches.registry.received("GET", f"/v2/{repository}/manifests/.*")
    assert not caches.registry.received("GET", f"/v2/{repository}/blobs/.*")
    await asyncio.to_thread(sign, caches.registry.host, image, caches.signer, repository)
    await caches.becomes(path, lambda cache: digest_of(cache) == image.digest)


async def test_image_without_policy_causes_no_registry_request(caches: Caches):
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
    await until(lambda: caches.claims(namespace), accept=lambda found: not found)


async def test_changed_policy_triggers_new_verification(caches: Caches):
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
    await caches.becomes(path, lambda cache: condition(cache, "Verified") == ("Unknown", "PolicyUnreadable"))
    await caches.api.delete(build_object_path(names.SIGNER_POLICIES, other))
    await caches.becomes(path, lambda cache: digest_of(cache) == image.digest)


async def test_moved_tag_is_followed_only_to_signed_image(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    first = await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    path = await caches.create(namespace, repository, name="kernels")
    cache = await caches.becomes(path, lambda cache: digest_of(cache) == first.digest)
    claim = names.name_pinned_claim(cache.key, first.digest)
    await until(lambda: caches.claims(namespace), accept=lambda found: claim in found)
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


async def test_registry_outage_keeps_digest_and_is_retried(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    image = await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    away = [True]
    caches.registry.on("GET", f"/v2/{repository}/.*", lambda _: refuse() if away[0] else None)
    path = await caches.create(namespace, repository)
    cache = await caches.becomes(path, lambda cache: condition(cache, "Resolved")[1] == "RegistryUnavailable")
    assert condition(cache, "Verified") == ("Unknown", "RegistryUnavailable")
    away[0] = False
    await caches.becomes(path, lambda cache: digest_of(cache) == image.digest)
    away[0] = True
    cache = await caches.becomes(path, lambda cache: condition(cache, "Resolved")[1] == "RegistryUnavailable")
    assert digest_of(cache) == image.digest
    assert condition(cache, "Verified")[0] == "True"


async def test_pull_secret_of_cache_is_used_for_private_registry(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    image = await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    caches.registry.on("*", f"/v2/{repository}/.*", misbehaviour.basic_auth("robot", "let me in"))
    without = await caches.create(namespace, repository)
    cache = await caches.becomes(without, lambda cache: condition(cache, "Verified")[0] == "False")
    assert condition(cache, "Verified") == ("False", "Unreadable")
    told = next(each.message for each in cache.status.conditions if each.type == "Verified")
    assert f"{caches.registry.host} requires a user name and a password for {repository}" in told
    assert "or specify a pull secret" in told
    path = await caches.create(namespace, repository, imagePullSecrets=[{"name": "login"}])
    cache = await caches.becomes(path, lambda cache: condition(cache, "Verified")[1] == "PullSecretUnreadable")
    assert condition(cache, "Verified")[0] == "Unknown"
    told = next(each.message for each in cache.status.conditions if each.type == "Verified")
    assert f"cannot read Secret {namespace}/login" in told
    login = {"auths": {caches.registry.host: {"username": "robot", "password": "let me in"}}}
    secret = {"type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": json.dumps(login)}}
    await caches.api.post(build_secrets_path(namespace), {"metadata": {"name": "login"}, **secret})
    cache = await caches.becomes(path, lambda cache: condition(cache, "Verified")[0] == "True")
    assert digest_of(cache) == image.digest
    # It is not used for a cache that does not name it.
    assert condition(await caches.read(without), "Verified") == ("False", "Unreadable")


async def test_webhook_replaces_claim_of_pod_with_pinned_claim(caches: Caches, site: CacheSite, tmp_path: Path):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    image = await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    async with site.serve_webhook(caches.api, tmp_path):
        path = await caches.create(namespace, repository, name="kernels")
        claim = build_object_path(build_collection_path("v1", "persistentvolumeclaims", namespace), "kernels")
        await until(lambda: get_if_present(caches.api, claim))
        cache = await caches.becomes(path, lambda cache: cache.status.resolved_digest)
        pod = json.loads(await caches.api.get(await caches.pod(namespace, "kernels")))
        claimed = [each["persistentVolumeClaim"] for each in pod["spec"]["volumes"] if "persistentVolumeClaim" in each]
        assert claimed == [{"claimName": names.name_pinned_claim(cache.key, image.digest), "readOnly": True}]
        assert pod["metadata"]["annotations"][CACHE_PINNED_ANNOTATION]
