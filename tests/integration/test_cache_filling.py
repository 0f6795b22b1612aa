"""Deliveries `namespace` and `image` by the real controller and its Jobs, on a real API server."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest
from cache_controller_process import Caches, CacheSite, condition
from cache_storage import (
    CLAIMS,
    CONFIG_MAPS,
    JOBS,
    OURS,
    VOLUMES,
    Storage,
    key_of,
    list_of,
    nothing_is_left,
    reason_of,
    storage_of,
)
from registries import misbehaviour
from support.waiting import until

from accelkit.cachecontroller.cluster_state import ClusterState
from accelkit.cachecontroller.cluster_view import ObservedObject
from accelkit.cachecontroller.delivery import FillSettings
from accelkit.cachecontroller.filling import ImageDelivery
from accelkit.gkm import names
from accelkit.gkm.objects import Cache
from accelkit.kube.objects import delete_if_present
from accelkit.kube.paths import build_collection_path, build_object_path

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]
# No node of the sandbox runs what fills; the storage does, as it has the folders.
NOWHERE = {"spec": {"nodeSelector": {"accelkit.test/none": "here"}}}
READERS = ["ReadWriteOnce", "ReadOnlyMany"]


async def create(caches: Caches, storage: Storage, namespace: str, repository: str, **spec) -> str:
    await caches.policy(caches.images(repository))
    given = {"delivery": "namespace", "storageClassName": storage.name, "podTemplate": NOWHERE}
    return await caches.create(namespace, repository, name="kernels", **{**given, **spec})


def is_ready(cache) -> bool:
    return condition(cache, "Ready")[0] == "True"


async def test_claim_is_filled_handed_over_and_deleted_without_leftovers(caches: Caches, tmp_path: Path):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    image = await caches.publish(repository, signer=caches.signer)
    async with storage_of(caches, tmp_path) as storage:
        path = await create(caches, storage, namespace, repository, accessModes=READERS, mountPath="/cache/here")
        cache = await caches.becomes(path, is_ready)
        claim = (await caches.claims(namespace))["kernels"]
        assert (claim["status"]["phase"], claim["spec"]["accessModes"]) == ("Bound", ["ReadOnlyMany"])
        (volume,) = await caches.volumes(cache.key)
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        assert cache.status.pvc_status[namespace].pvc_name == "kernels"
        assert cache.status.pvc_status[namespace].pv_name == volume["metadata"]["name"]
        root = Path(volume["spec"]["hostPath"]["path"])
        (group,) = root.rglob("__grp__*")
        assert "/cache/here/" in group.read_text()
        record = msgspec.json.decode((root / ".accelkit" / "complete.json").read_bytes())
        assert record["image"].endswith(image.digest)
        assert record["signatures"], "the Job has verified it again"

        async def tidy() -> bool:
            return not any([await list_of(caches, each, cache.key) for each in (JOBS, CLAIMS, CONFIG_MAPS)])

        await until(tidy)
        await caches.api.delete(path)
        await caches.gone(path)
        await nothing_is_left(caches, namespace, cache.key)


async def test_refused_access_mode_is_reported_with_provisioner_message(caches: Caches, tmp_path: Path):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    await caches.publish(repository, signer=caches.signer)
    async with storage_of(caches, tmp_path, refused="ReadOnlyMany", runs=False) as storage:
        path = await create(caches, storage, namespace, repository, accessModes=READERS)
        # It goes on to a volume that many could write; who only reads it needs no other.
        cache = await caches.becomes(path, lambda cache: reason_of(cache, namespace) == "Extracting")
        await until(
            lambda: storage.list(CLAIMS),
            accept=lambda claims: any(
                each["spec"]["accessModes"] == ["ReadWriteMany"] and each["spec"].get("volumeName")
                for each in [each for each in claims if key_of(each) == cache.key]
            ),
        )
    async with storage_of(caches, tmp_path, refused="ReadWriteMany", runs=False) as storage:
        await caches.api.patch(path, {"spec": {"storageClassName": storage.name, "accessModes": ["ReadWriteMany"]}})
        cache = await caches.becomes(path, lambda cache: condition(cache, "Ready")[1] == "AccessModeUnsupported")
        told = next(each.message for each in cache.status.conditions if each.type == "Ready")
        assert "the disk knows no access mode ReadWriteMany" in told
        await until(lambda: list_of(caches, JOBS, cache.key), accept=lambda found: not found)
        await caches.api.delete(path)
        await caches.gone(path)
    # What the first class made is deleted by its provisioner, which is gone.
    for each in await caches.volumes(cache.key):
        await caches.api.delete(build_object_path(VOLUMES, each["metadata"]["name"]))
    await nothing_is_left(caches, namespace, cache.key)


async def test_filling_continues_after_controller_is_killed_in_each_state(
    caches: Caches, site: CacheSite, tmp_path: Path
):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    await caches.publish(repository, signer=caches.signer)
    async with storage_of(caches, tmp_path, runs=False) as storage:
        path = await create(caches, storage, namespace, repository, accessModes=READERS)
        key = f"{namespace}/kernels"
        claims = build_collection_path("v1", "persistentvolumeclaims", namespace)
        for place in (CLAIMS, JOBS):
            await until(lambda place=place: list_of(caches, place, key))
            restart(site)
        storage.runs = True
        await until(lambda: list_of(caches, claims, key))
        restart(site)
        await caches.becomes(path, is_ready)
        restart(site)
        await caches.api.delete(path)
        await caches.gone(path)
        await nothing_is_left(caches, namespace, key)


def restart(site: CacheSite) -> None:
    site.controller.end(signal.SIGKILL)
    site.controller.start()


@pytest.mark.extended
async def test_failed_fill_job_is_reported_with_its_message_and_retried(caches: Caches, tmp_path: Path):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    image = await caches.publish(repository, signer=caches.signer)
    layer = msgspec.json.decode(image.manifest)["layers"][0]["digest"]
    lies = iter([True])
    lie = misbehaviour.changed(b"of another digest")
    caches.registry.on(
        "GET", f"/v2/{repository}/blobs/{layer}", lambda request: lie(request) if next(lies, False) else None
    )
    async with storage_of(caches, tmp_path) as storage:
        path = await create(caches, storage, namespace, repository)
        cache = await caches.becomes(path, lambda cache: condition(cache, "Ready") == ("False", "FillFailed"))
        assert "attempt 1 failed: " in next(each.message for each in cache.status.conditions if each.type == "Ready")
        await caches.becomes(path, is_ready)


@pytest.mark.extended
async def test_running_pods_keep_former_digest_and_new_pods_wait_for_next_claim(caches: Caches, tmp_path: Path):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    first = await caches.publish(repository, signer=caches.signer)
    async with storage_of(caches, tmp_path) as storage:
        path = await create(caches, storage, namespace, repository)
        cache = await caches.becomes(path, is_ready)
        pod = await caches.pod(namespace, "kernels", "old")
        second = await caches.publish(repository, kernel="mul", tag="v2", signer=caches.signer)
        name = cache.spec.image.rpartition(":")[0]
        await caches.api.patch(path, {"spec": {"image": f"{name}:v2"}})
        pinned = names.name_pinned_claim(cache.key, second.digest)

        def renewed(cache) -> bool:
            state = cache.status.pvc_status.get(namespace)
            return is_ready(cache) and state is not None and state.pvc_name == pinned

        cache = await caches.becomes(path, renewed)
        assert len(await caches.volumes(cache.key)) == 2
        assert first.digest != second.digest
        states = cache.status.pvc_status[namespace].conditions
        assert next(each for each in states if each.type == "Outdated").status == "True"
        await caches.api.delete(pod, {"gracePeriodSeconds": 0})
        await until(lambda: caches.volumes(cache.key), accept=lambda found: len(found) == 1)
        # Past the webhook a pod names the cache's own claim, which no volume has now.
        await caches.pod(namespace, "kernels", "new")
        await until(
            lambda: caches.claims(namespace),
            accept=lambda claims: [*claims] == ["kernels"] and claims["kernels"]["status"]["phase"] == "Bound",
        )


async def test_copied_pull_secret_is_deleted_with_its_job(caches: Caches, tmp_path: Path):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    await caches.publish(repository, signer=caches.signer)
    secrets = build_collection_path("v1", "secrets", namespace)
    login = {"auths": {caches.registry.host: {"auth": "dTpw"}}}
    data = {".dockerconfigjson": msgspec.json.encode(login).decode()}
    body = {"metadata": {"name": "login"}, "type": "kubernetes.io/dockerconfigjson", "stringData": data}
    await caches.api.post(secrets, body)
    async with storage_of(caches, tmp_path, runs=False) as storage:
        path = await create(caches, storage, namespace, repository, imagePullSecrets=[{"name": "login"}])
        ours = build_collection_path("v1", "secrets", OURS)

        async def find() -> list[dict]:
            found = msgspec.json.decode(await caches.api.get(ours))["items"]
            return [each for each in found if each["metadata"]["name"].startswith("cache-")]

        (copied,) = await until(find)
        assert copied["data"] == msgspec.json.decode(await caches.api.get(f"{secrets}/login"))["data"]
        assert copied["metadata"]["ownerReferences"][0]["kind"] == "Job"
        await caches.api.delete(path)
        await caches.gone(path)
        await caches.gone(build_object_path(ours, copied["metadata"]["name"]))


async def test_cache_that_needs_relocation_is_not_delivered_as_image(caches: Caches):
    namespace, repository = await caches.namespace(), f"{caches.unique('team')}/app"
    await caches.publish(repository, signer=caches.signer)
    await caches.policy(caches.images(repository))
    path = await caches.create(namespace, repository, delivery="image")
    # Triton's group files hold the path at which they were captured.
    await caches.becomes(path, lambda cache: condition(cache, "Ready") == ("False", "NotRelocatable"))


async def test_api_server_without_image_volumes_is_detected(caches: Caches):
    """Kubernetes 1.34 drops the volume and its mounts unless a gate is on; the pods would run without."""
    status = {
        "resolvedDigest": f"sha256:{'1' * 64}",
        "mountPath": "/cache",
        "cacheFormat": "vllm",
        "capturePath": "/cache",
    }
    document = {
        "metadata": {"name": "kernels", "namespace": OURS},
        "spec": {"image": "quay.io/a/b:v1"},
        "status": status,
    }
    cache, seen = msgspec.json.decode(msgspec.json.encode(document), type=Cache), ClusterState(str)
    delivery = ImageDelivery(FillSettings("i", OURS))
    ((name, body),) = delivery.plan(cache, seen).create
    collection = build_collection_path(name.kind.api_version, name.kind.plural, OURS)
    answer = await caches.api.post(collection, body)
    # The controller may have been faster: there is no such cache.
    await delete_if_present(caches.api, build_object_path(collection, name.name))
    seen.put(name, msgspec.json.decode(answer, type=ObservedObject))
    (ready, _) = delivery.plan(cache, seen).states[OURS].conditions
    assert (ready.status, ready.reason) == ("False", "ImageVolumesUnsupported")
