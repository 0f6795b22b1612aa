"""The webhook of pods and the admission policies of kernel caches, on a real API server."""

import asyncio
import os

import pytest
from cache_cluster import DIGEST, PINNED, guarding, make_pod, mount, open_cluster, owning
from ports import free_port
from support.waiting import until
from webhook_registration import CONFIGURATIONS
from webhook_stand import CONFIGURATION, IMAGE, Stand

from accelkit.errors import ApiError
from accelkit.gkm.conditions import ConditionType, Reason, merge_conditions, state
from accelkit.gkm.names import CLUSTER_CACHES
from accelkit.gkm.objects import PvcStatus
from accelkit.kube.paths import build_object_path
from accelkit.model.keys import CACHE_MOUNT_ANNOTATION, CACHE_PINNED_ANNOTATION, CACHE_WRITABLE_ANNOTATION

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NOT_HANDLED = "the webhook of accelkit did not handle the pod"
# At once; `make many-caches` has 200.
MANY = int(os.environ.get("ACCELKIT_CACHES", "40"))


@pytest.fixture(scope="module")
def stand(control_plane, tmp_path_factory):
    stand = Stand(tmp_path_factory.mktemp("webhook"), control_plane.kubeconfig, free_port())
    stand.issue()
    yield stand
    stand.stop()


@pytest.fixture(scope="module")
def guarded(control_plane, defined, stand):
    """The policies in the cluster; returns where it is."""
    with guarding(control_plane.kubeconfig, stand) as kubeconfig:
        yield kubeconfig


@pytest.fixture
async def cluster(guarded, stand):
    async with open_cluster(guarded, stand) as cluster:
        yield cluster


@pytest.fixture
async def served(cluster):
    """The cluster, while the webhook runs."""
    cluster.stand.start()
    return cluster


@pytest.fixture
async def namespace(cluster):
    return await cluster.make_namespace()


async def ready(cluster, namespace, name="kernels", **status):
    """Make a cache and wait until the webhook gives its pods the digest."""
    await cluster.make_cache(namespace, name, **status)

    async def pinned():
        cluster.stand.check()
        try:
            pod = await cluster.create(namespace, make_pod(mount(readOnly=True), claim=name), dry=True)
        except ApiError as exc:
            # Its process may still begin.
            if NOT_HANDLED not in str(exc):
                raise
            return False
        return pod["metadata"].get("annotations", {}).get(CACHE_PINNED_ANNOTATION) == DIGEST

    await until(pinned)


async def test_pods_can_be_created_directly_after_their_cache(served, namespace):
    # Once it answers.
    await ready(served, namespace)
    for number in range(5):
        name = f"follows-{number}"
        await served.make_cache(namespace, name)
        pod = await served.create(namespace, make_pod(mount(), claim=name))
        assert pod["spec"]["initContainers"][0]["image"] == IMAGE


async def test_pods_can_be_created_directly_after_namespace_is_added(served, namespace):
    name, later = f"shared-{namespace}", f"later-{namespace}"
    await ready(served, namespace, name, spread=[namespace, later])
    spread = [namespace, later, await served.make_namespace()]
    await served.make_namespace(later)
    await served.api.patch(build_object_path(CLUSTER_CACHES, name), {"spec": {"workloadNamespaces": spread}})
    for place in reversed(spread):
        pod = await served.create(place, make_pod(mount(), claim=name))
        assert pod["spec"]["initContainers"][0]["image"] == IMAGE


async def test_pod_is_stored_with_pinned_claim_and_private_copy(served, namespace):
    await ready(served, namespace)
    lying = {CACHE_PINNED_ANNOTATION: "sha256:" + "0" * 64, CACHE_WRITABLE_ANNOTATION: "mine"}
    pod = await served.create(namespace, make_pod(mount(), annotations=lying))
    by_name = {each["name"]: each for each in pod["spec"]["volumes"]}
    assert by_name["files"]["persistentVolumeClaim"] == {"claimName": f"kernels{PINNED}", "readOnly": True}
    (filling,) = pod["spec"]["initContainers"]
    assert filling["image"] == IMAGE
    assert filling["volumeMounts"][0] == {"name": "files", "mountPath": "/accelkit/from", "readOnly": True}
    assert "emptyDir" in by_name[filling["name"]]
    assert pod["spec"]["containers"][0]["volumeMounts"][0]["name"] == filling["name"]
    annotations = pod["metadata"]["annotations"]
    assert annotations[CACHE_PINNED_ANNOTATION] == DIGEST
    assert annotations[CACHE_WRITABLE_ANNOTATION] == f"{filling['name']}={namespace}/kernels"


async def test_mount_annotation_adds_mounts_and_variables(served, namespace):
    await ready(served, namespace)
    pod = await served.create(namespace, make_pod(claim="", annotations={CACHE_MOUNT_ANNOTATION: "kernels=main"}))
    main = pod["spec"]["containers"][0]
    # That of the service account's token may come first.
    (copied,) = [each["name"] for each in main["volumeMounts"] if each["mountPath"] == "/cache"]
    assert copied in [each["name"] for each in pod["spec"]["initContainers"]]
    assert {each["name"] for each in main["env"]} == {"TRITON_CACHE_DIR", "VLLM_CACHE_ROOT"}
    asked = make_pod(claim="", annotations={CACHE_MOUNT_ANNOTATION: "unknown"})
    assert "existing caches: kernels" in await served.refusal(namespace, asked)


async def test_ephemeral_volume_with_name_of_cache_claim_is_rejected(served, namespace):
    await ready(served, namespace, "early-bird")
    for pod in (owning("bird", pod="early"), owning(PINNED[1:], pod="early-bird")):
        assert "has the name of a claim of kernel cache early-bird: rename the volume" in await served.refusal(
            namespace, pod
        )
    await served.create(namespace, owning("data", pod="early-bird-2"))
    assert "early-bird-2" not in served.stand.asked()


async def test_cluster_cache_does_not_change_pods_of_other_namespaces(served, namespace):
    other = await served.make_namespace()
    name = f"shared-{namespace}"
    await ready(served, namespace, name, spread=[namespace])
    foreign = await served.create(other, make_pod(mount(), claim=name))
    assert foreign["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": name}
    assert CACHE_PINNED_ANNOTATION not in foreign["metadata"].get("annotations", {})


async def test_webhook_is_not_called_for_pods_without_cache_claim(served, namespace):
    await ready(served, namespace)
    concerned = make_pod(mount(readOnly=True))
    for claim in ("data", "kernels-of-mine"):
        pod = await served.create(namespace, make_pod(mount(), claim=claim))
        assert pod["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": claim}
        assert not pod["spec"].get("initContainers")
        assert not pod["metadata"].get("annotations")
    others = [make_pod(claim=""), owning("data", pod="owner")]
    for pod in (*others, concerned):
        await served.create(namespace, pod)
    spared = make_pod(mount(readOnly=True))
    await served.create("kube-system", spared, dry=True)
    asked = served.stand.asked()
    assert concerned["metadata"]["name"] in asked
    assert not {each["metadata"]["name"] for each in (*others, spared)} & set(asked)


async def test_webhook_outage_rejects_only_pods_of_caches(served, namespace):
    await ready(served, namespace)
    served.stand.stop()
    assert await served.refusal(namespace, make_pod(claim="")) == ""
    assert await served.refusal(namespace, make_pod(mount(), claim="data")) == ""
    for claim in ("kernels", f"kernels{PINNED}"):
        assert NOT_HANDLED in await served.refusal(namespace, make_pod(mount(readOnly=True), claim=claim))
    asking = make_pod(claim="", annotations={CACHE_MOUNT_ANNOTATION: "kernels"})
    assert NOT_HANDLED in await served.refusal(namespace, asking)
    # Whoever pretends that the pod was handled still cannot write.
    pretended = {CACHE_PINNED_ANNOTATION: DIGEST}
    writing = await served.refusal(namespace, make_pod(mount(), annotations=pretended))
    assert "is mounted writable, but all its pods share its files" in writing
    assert await served.refusal(namespace, make_pod(mount(readOnly=True), annotations=pretended)) == ""


async def test_webhook_outage_rejects_pods_of_cluster_cache(served, namespace):
    other, name = await served.make_namespace(), f"shared-{namespace}"
    await ready(served, namespace, name, spread=[namespace])
    served.stand.stop()
    assert NOT_HANDLED in await served.refusal(namespace, make_pod(mount(readOnly=True), claim=name))
    assert await served.refusal(other, make_pod(mount(), claim=name)) == ""


async def test_webhook_outage_does_not_block_tenant_claim_with_name_of_cache(served, namespace):
    taken = [state(ConditionType.READY, Reason.CLAIM_EXISTS, "a tenant's", holds=False)]
    conditions = merge_conditions([], taken, now="2026-01-01T00:00:00Z")
    await ready(served, namespace)
    await served.make_cache(namespace, "data", pvc_status={namespace: PvcStatus(conditions=conditions)})
    served.stand.stop()
    await until(lambda: served.refusal(namespace, make_pod(mount(), claim="data")), accept=lambda found: found == "")


async def test_renewed_certificate_is_served_without_configuration_change(served, namespace):
    await ready(served, namespace)
    path = build_object_path(CONFIGURATIONS, CONFIGURATION)
    before = await served.api.get(path)
    served.stand.issue()

    async def shown():
        # Whichever of both certificates it shows meanwhile.
        assert await served.refusal(namespace, make_pod(mount(readOnly=True))) == ""
        return await asyncio.to_thread(served.stand.shows_certificate)

    await until(shown)
    assert await served.refusal(namespace, make_pod(mount(readOnly=True))) == ""
    assert await served.api.get(path) == before


async def test_pod_with_many_claims_is_evaluated_within_cel_budget(served, namespace):
    await ready(served, namespace)
    pod = make_pod(mount(readOnly=True))
    names = [f"other-{number}" for number in range(100)]
    pod["spec"]["volumes"] += [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in names]
    assert await served.refusal(namespace, pod) == ""
    served.stand.stop()
    assert NOT_HANDLED in await served.refusal(namespace, pod)


async def test_webhook_handles_pods_of_many_caches(served, namespace):
    await ready(served, namespace)
    # An API client of Go has about as many requests under way.
    slots = asyncio.Semaphore(25)

    async def make(name):
        async with slots:
            await served.make_cache(namespace, name)

    await asyncio.gather(*(make(f"cache-{number}") for number in range(MANY)))
    for number in (0, MANY // 2, MANY - 1):
        pod = await served.create(namespace, make_pod(mount(), claim=f"cache-{number}"), dry=True)
        assert pod["spec"]["initContainers"][0]["image"] == IMAGE
    assert await served.refusal(namespace, make_pod(mount(), claim="data")) == ""
