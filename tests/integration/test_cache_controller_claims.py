"""Claims that `accelkit cache-controller` makes, on a real API server: whose they are, when they come, when they go."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import pytest
from cache_controller_process import Caches, CacheSite, condition, digest_of
from support.waiting import until

from accelkit.gkm import names
from accelkit.kube.paths import build_collection_path, build_object_path
from accelkit.model.keys import CACHE_FINALIZER, CACHE_KEY_ANNOTATION, CACHE_NAME_LABEL

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
# At once; `make many-caches` has 200.
MANY = int(os.environ.get("ACCELKIT_CACHES", "20"))


async def test_namespace_created_later_gets_claims(caches: Caches):
    here, later, repository = await caches.namespace(), caches.unique("later"), f"{caches.unique('team')}/app"
    await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    path = await caches.create("", repository, workloadNamespaces=[here, later])
    name = path.rpartition("/")[2]

    def missing(cache) -> bool:
        states = cache.status.pvc_status
        told = later in states and states[later].conditions[0].reason == "NamespaceMissing"
        return told and here in states and states[here].pvc_owner == "Agent"

    await caches.becomes(path, missing)
    await until(lambda: caches.claims(here), accept=lambda found: name in found)
    await caches.namespace(later)
    await until(lambda: caches.claims(later), accept=lambda found: name in found)


async def test_claim_of_another_owner_is_not_changed(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    claims = build_collection_path("v1", "persistentvolumeclaims", namespace)
    key = f"{namespace}/kernels"
    # It says of itself that it is ours.
    meta = {"name": "kernels", "labels": names.build_labels(key), "annotations": {CACHE_KEY_ANNOTATION: key}}
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


async def test_deleted_or_unlabelled_claim_is_restored(caches: Caches):
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
        return meta.get("labels", {}).get(CACHE_NAME_LABEL) == "kernels" and meta["uid"] == second

    await until(labelled)


async def test_deletion_of_cache_waits_for_its_pods_and_leaves_nothing(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    path = await caches.create(namespace, repository, name="kernels")
    await until(lambda: caches.claims(namespace), accept=lambda found: len(found) == 2)
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


async def test_controller_continues_after_kill(caches: Caches, site: CacheSite):
    namespace, team = await caches.namespace(), caches.unique("team")
    repositories = [f"{team}/app-{number}" for number in range(3)]
    images = [await caches.publish(each, kernel=f"k{n}", signer=caches.signer) for n, each in enumerate(repositories)]
    await caches.policy(f"{caches.registry.host}/{team}/**")
    paths = []
    for each in repositories:
        paths.append(await caches.create(namespace, each))
        # At whatever step it is: the Lease was its own, so it leads again at once.
        site.controller.end(signal.SIGKILL)
        site.controller.start()
    for path, image in zip(paths, images, strict=True):
        cache = await caches.becomes(path, lambda cache, image=image: digest_of(cache) == image.digest)
        assert cache.metadata.finalizers == [CACHE_FINALIZER]
    await until(
        lambda: caches.claims(namespace),
        accept=lambda claims: len([each for each in claims.values() if each["status"].get("phase") == "Bound"]) == 6,
    )


async def test_controller_handles_many_caches(caches: Caches):
    namespace, team = await caches.namespace(), caches.unique("team")
    image = await caches.publish(f"{team}/app", signer=caches.signer)
    await caches.policy(caches.images(f"{team}/app"))
    await asyncio.gather(*(caches.create(namespace, f"{team}/app", kept=True) for _ in range(MANY)))
    collection = build_collection_path(names.API, "gkmcaches", namespace)
    await until(
        lambda: caches.api.get(collection),
        accept=lambda found: found.count(f'"resolvedDigest":"{image.digest}"'.encode()) == MANY,
        seconds=120,
        every=0.5,
    )
    await until(lambda: caches.claims(namespace), accept=lambda found: len(found) == 2 * MANY, seconds=120, every=0.5)
    await caches.api.delete(collection)

    async def nothing() -> bool:
        return not json.loads(await caches.api.get(collection))["items"] and not await caches.claims(namespace)

    await until(nothing, seconds=120, every=0.5)
