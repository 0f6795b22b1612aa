"""Ways around the webhook of kernel caches, which the API server itself refuses: its admission policies."""

import msgspec
import pytest
from cache_cluster import DRY, PINNED, guarding, make_pod, mount, open_cluster, owning
from impersonation import acting_as, find_refusal
from support.waiting import until

from accelkit.errors import ApiError
from accelkit.gkm.conditions import ConditionType, Reason, merge_conditions, state
from accelkit.gkm.names import CLUSTER_CACHES, build_labels
from accelkit.gkm.objects import PvcStatus
from accelkit.kube.paths import build_collection_path, build_object_path, build_pod_path

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

REFUSED = "is mounted writable, but all its pods share its files"
CONTROLLER = "system:serviceaccount:accelkit:accelkit-cache-controller"
OUR_VOLUME = "accelkit-cache-current-0123456789"
FOLDER = "/var/lib/accelkit/kernel-caches"
CLAIMS = build_collection_path("v1", "persistentvolumeclaims", "default")


@pytest.fixture(scope="module")
def guarded(control_plane, defined):
    """The policies in the cluster, without a webhook."""
    with guarding(control_plane.kubeconfig, wait=wait_for_policies) as kubeconfig:
        yield kubeconfig


async def wait_for_policies(cluster):
    """Until the last that was made is in force, some time after it is stored."""
    await until(lambda: find_refusal(cluster.api.post(CLAIMS, claim("stolen", OUR_VOLUME), query=DRY)))


@pytest.fixture
async def cluster(guarded):
    async with open_cluster(guarded) as cluster:
        yield cluster


@pytest.fixture
async def namespace(cluster):
    return await cluster.make_namespace()


async def guard(cluster, namespace, name="kernels", **status):
    """Make a cache, and wait until the policies know it."""
    await cluster.make_cache(namespace, name, **status)
    await until(
        lambda: cluster.refusal(namespace, make_pod(mount(), claim=name)), accept=lambda found: REFUSED in found
    )


def inits(*mounts):
    """An init container beside one that only reads."""
    spec = {"initContainers": [{"name": "fix-permissions", "image": "fedora", "volumeMounts": list(mounts)}]}
    return make_pod(mount(readOnly=True), spec=spec)


def volume_read_only():
    pod = make_pod(mount())
    pod["spec"]["volumes"][0]["persistentVolumeClaim"]["readOnly"] = True
    return pod


def twice():
    pod = make_pod(mount(readOnly=True), {"name": "again", "mountPath": "/again"})
    pod["spec"]["volumes"].append({"name": "again", "persistentVolumeClaim": {"claimName": "kernels"}})
    return pod


@pytest.mark.parametrize("of_cluster", [False, True])
async def test_pod_that_bypasses_webhook_cannot_mount_cache_writable(cluster, namespace, of_cluster):
    name = f"shared-{namespace}" if of_cluster else "kernels"
    await guard(cluster, namespace, name, spread=[namespace] if of_cluster else ())
    writing = [make_pod(mount(), claim=name), make_pod(mount(subPath="torch"), claim=f"{name}{PINNED}")]
    reading = [
        make_pod(mount(readOnly=True), claim=name),
        make_pod(claim=name),
        make_pod(mount(), claim=f"{name}-mine"),
    ]
    for pod in writing:
        assert REFUSED in await cluster.refusal(namespace, pod)
    for pod in reading:
        assert await cluster.refusal(namespace, pod) == ""
    other = await cluster.make_namespace()
    assert await cluster.refusal(other, make_pod(mount(), claim=name)) == ""


async def test_init_container_mounts_are_checked_and_read_only_volume_is_accepted(cluster, namespace):
    await guard(cluster, namespace)
    assert REFUSED in await cluster.refusal(namespace, inits(mount("/kernel-caches")))
    assert REFUSED in await cluster.refusal(namespace, twice())
    assert await cluster.refusal(namespace, inits(mount("/kernel-caches", readOnly=True))) == ""
    assert await cluster.refusal(namespace, volume_read_only()) == ""


async def test_ephemeral_container_cannot_mount_cache_writable(cluster, namespace):
    await guard(cluster, namespace)
    pod = await cluster.create(namespace, make_pod(mount(readOnly=True)))
    path = f"{build_pod_path(namespace, pod['metadata']['name'])}/ephemeralcontainers"
    debug = {"name": "debug", "image": "x", "volumeMounts": [mount()]}
    with pytest.raises(ApiError, match=REFUSED):
        await cluster.api.patch(path, {"spec": {"ephemeralContainers": [debug]}}, query=DRY)
    debug["volumeMounts"] = [mount(readOnly=True)]
    await cluster.api.patch(path, {"spec": {"ephemeralContainers": [debug]}}, query=DRY)


async def test_cache_with_long_name_has_protected_pinned_claims(cluster, namespace):
    name = "k" * 253
    await guard(cluster, namespace, name)
    pinned = f"{'k' * 229}-0123456789{PINNED}"
    assert REFUSED in await cluster.refusal(namespace, make_pod(mount(), claim=pinned))
    assert await cluster.refusal(namespace, make_pod(mount(), claim="k" * 200)) == ""


@pytest.mark.parametrize("of_cluster", [False, True])
async def test_ephemeral_volume_with_name_of_cache_claim_is_rejected(cluster, namespace, of_cluster):
    name = f"early-{namespace}" if of_cluster else "early-bird"
    await guard(cluster, namespace, name, spread=[namespace] if of_cluster else ())
    pod, _, volume = name.rpartition("-")
    for made in (owning(volume, pod=pod), owning(PINNED[1:], pod=name)):
        refusal = await cluster.refusal(namespace, made)
        assert f"has the name of a claim of kernel cache {name}: rename the volume" in refusal
    others = [
        owning("data", pod=name),
        owning(volume, pod="another"),
        owning(f"x{PINNED[1:]}", pod=name),
        owning(PINNED[1:], pod=f"{name}-2"),
    ]
    for made in others:
        assert await cluster.refusal(namespace, made) == ""
    assert await cluster.refusal(await cluster.make_namespace(), owning(volume, pod=pod)) == ""


async def test_removed_namespace_is_guarded_until_its_claims_are_deleted(cluster, namespace):
    name, kept = f"shared-{namespace}", await cluster.make_namespace()
    given = {each: PvcStatus(pvc_name=name) for each in (namespace, kept)}
    await guard(cluster, namespace, name, spread=[namespace, kept], pvc_status=given)
    path = build_object_path(CLUSTER_CACHES, name)
    await cluster.api.patch(path, {"spec": {"workloadNamespaces": [kept]}})
    # The next policy that the API server learns comes after this change.
    await guard(cluster, kept)
    assert REFUSED in await cluster.refusal(namespace, make_pod(mount(), claim=name))
    await cluster.api.patch(f"{path}/status", {"status": {"pvcStatus": {namespace: None}}})

    async def allowed():
        return await cluster.refusal(namespace, make_pod(mount(), claim=name)) == ""

    await until(allowed)
    assert REFUSED in await cluster.refusal(kept, make_pod(mount(), claim=name))


async def test_tenant_claim_with_name_of_cache_is_not_guarded(cluster, namespace):
    taken = merge_conditions(
        [], [state(ConditionType.READY, Reason.CLAIM_EXISTS, holds=False)], now="2026-01-01T00:00:00Z"
    )
    await guard(cluster, namespace)
    await cluster.make_cache(namespace, "data", pvc_status={namespace: PvcStatus(conditions=taken)})

    async def allowed():
        pods = [make_pod(mount(), claim="data"), owning("a", pod="data"), owning("data", pod="kernels")]
        return [await cluster.refusal(namespace, each) for each in pods] == ["", "", ""]

    await until(allowed)


async def test_pod_too_large_to_evaluate_is_rejected(cluster, namespace):
    await guard(cluster, namespace)
    pod = make_pod(mount())
    pod["spec"]["volumes"] += [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": f"kernels-{number:012x}"}}
        for number in range(4000)
    ]
    pod["spec"]["containers"][0]["volumeMounts"] += [
        {"name": f"v{number}", "mountPath": f"/m{number}"} for number in range(4000)
    ]
    assert await cluster.refusal(namespace, pod) != ""


async def test_large_pod_with_unrelated_claims_is_admitted(cluster, namespace):
    await guard(cluster, namespace)
    names = [f"kernels-{number}" for number in range(500)]
    pod = owning(*(f"own-{each}" for each in names), pod="kernels")
    pod["spec"]["volumes"] += [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in names]
    mounts = [{"name": each, "mountPath": f"/{each}"} for each in names]
    pod["spec"]["containers"] = [{"name": f"c-{number}", "image": "x", "volumeMounts": mounts} for number in range(5)]
    assert await cluster.refusal(namespace, pod) == ""


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        (FOLDER, True),
        (f"{FOLDER}/claims/x", True),
        ("/var/lib/accelkit", True),
        ("//var//lib/./accelkit//kernel-caches/", True),
        ("/./var/lib/accelkit/.", True),
        (f"/proc/1/root{FOLDER}", True),
        ("/proc/1/root/var/lib", True),
        ("//proc/self/./task/1/cwd", True),
        ("/proc/mounts-of/kernel-caches/x", True),
        ("/proc", False),
        ("/proc/sys/kernel", False),
        ("/rootfs/proc/1/root", False),
        (f"{FOLDER}-of-mine", False),
        ("/var/lib/other", False),
    ],
)
async def test_host_path_that_reaches_cache_folder_is_rejected(cluster, namespace, path, refused):
    pod = make_pod(claim="")
    pod["spec"]["volumes"] = [{"name": "host", "hostPath": {"path": path}}]
    await until(
        lambda: cluster.refusal(namespace, pod),
        accept=lambda found: ("only a claim of a cache may mount" in found) is refused,
    )
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": path}}
    body = {"metadata": {"name": f"volume-{namespace}"}, "spec": volume}
    found = ""
    try:
        await cluster.api.post("/api/v1/persistentvolumes", body, query=DRY)
    except ApiError as exc:
        found = str(exc)
    assert ("only the cache controller may create volumes" in found) is refused


def claim(name, volume="", **meta):
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "resources": resources}
    return {"metadata": {"name": name, **meta}, "spec": {**spec, **({"volumeName": volume} if volume else {})}}


async def test_cache_volume_is_reserved_for_claim_of_controller(cluster, guarded, namespace):
    claims = build_collection_path("v1", "persistentvolumeclaims", namespace)
    with pytest.raises(ApiError, match="is only for the claim that the cache controller created"):
        await cluster.api.post(claims, claim("stolen", OUR_VOLUME), query=DRY)
    await cluster.api.post(claims, claim("later"))
    with pytest.raises(ApiError, match="is only for the claim that the cache controller created"):
        await cluster.api.patch(f"{claims}/later", {"spec": {"volumeName": OUR_VOLUME}}, query=DRY)
    async with acting_as(guarded, CONTROLLER, "system:masters") as controller:
        await controller.post(claims, claim("ours", OUR_VOLUME))
    # Whoever may label claims still may.
    await cluster.api.patch(f"{claims}/ours", {"metadata": {"labels": {"a": "b"}}})


@pytest.mark.parametrize("filled", [False, True], ids=["node", "namespace"])
async def test_pod_cannot_become_owner_of_cache_claim(cluster, guarded, namespace, filled):
    claims = build_collection_path("v1", "persistentvolumeclaims", namespace)
    owned = {"metadata": {"ownerReferences": [await make_owner(cluster, namespace, "attacker")]}}
    marks = build_labels(f"{namespace}/kernels")
    # One that a Job filled has a volume of another name.
    made = claim("ours", f"pvc-{namespace}", labels=marks) if filled else claim("ours", OUR_VOLUME, labels=marks)
    async with acting_as(guarded, CONTROLLER, "system:masters") as controller:
        await controller.post(claims, made)
        for path in (f"{claims}/ours", f"{claims}/ours/status"):
            with pytest.raises(ApiError, match="the claim of a kernel cache must have no owner"):
                await cluster.api.patch(path, owned)
            with pytest.raises(ApiError, match="of the claim of a kernel cache are immutable"):
                await cluster.api.patch(path, {"metadata": {"labels": {"app.kubernetes.io/component": None}}})
        with pytest.raises(ApiError, match="the claim of a kernel cache must have no owner"):
            await cluster.api.post(claims, claim("new", labels=marks, **owned["metadata"]), query=DRY)
        # An owner of before the policy may be taken off, and does not stop other changes, but does not become another.
        former = await make_owner(cluster, namespace, "former")
        await controller.patch(f"{claims}/ours", {"metadata": {"ownerReferences": [former]}})
    await cluster.api.patch(f"{claims}/ours", {"metadata": {"labels": {"a": "b"}}})
    controlled = {"metadata": {"ownerReferences": [{**former, "controller": True}]}}
    with pytest.raises(ApiError, match="the claim of a kernel cache must have no owner"):
        await cluster.api.patch(f"{claims}/ours", controlled)
    await cluster.api.patch(f"{claims}/ours", {"metadata": {"ownerReferences": None}})


async def test_owners_and_labels_of_other_claims_can_change(cluster, namespace):
    claims = build_collection_path("v1", "persistentvolumeclaims", namespace)
    beside = {"app.kubernetes.io/component": "kernel-cache", "app.kubernetes.io/part-of": "something"}
    one, two = [await make_owner(cluster, namespace, each) for each in ("one", "two")]
    await cluster.api.post(claims, claim("data", "pvc-1", labels=beside, ownerReferences=[one]))
    owners = {"ownerReferences": [two], "labels": {"app.kubernetes.io/component": None}}
    for path in (f"{claims}/data", f"{claims}/data/status"):
        await cluster.api.patch(path, {"metadata": owners})


async def make_owner(cluster, namespace, name):
    """A reference to something that is there, since what nobody owns any more is collected."""
    path = build_collection_path("v1", "configmaps", namespace)
    made = msgspec.json.decode(await cluster.api.post(path, {"metadata": {"name": name}}))
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made["metadata"]["uid"]}
