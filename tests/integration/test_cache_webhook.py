"""The webhook of pods and the admission policies of kernel caches, on a real API server."""

from __future__ import annotations

import asyncio
import os
import time

import pytest
from cache_cluster import DIGEST, PINNED, CacheCluster, make_pod, mount, owning
from extender_process import until
from ports import free_port
from webhook_stand import CONFIGURATION, IMAGE, Stand

from accelkit.cachecontroller.gate import Gate
from accelkit.cachecontroller.webhook.matching import MAX_EXPRESSION, Exactness, build_expression, list_claims_of
from accelkit.cachecontroller.webhook.registration import API, CONFIGURATIONS, KIND, Endpoint, Registration
from accelkit.errors import ApiError
from accelkit.gkm.names import CLUSTER_CACHES, MOUNT_ANNOTATION, PINNED_ANNOTATION, WRITABLE_ANNOTATION
from accelkit.gkm.objects import Cache, CacheMeta
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.kube.objects import delete_if_present
from accelkit.kube.paths import build_object_path

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

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
    made: list[str] = []

    async def do(action):
        async with ApiClient(load_connection(control_plane.kubeconfig)) as api:
            cluster = CacheCluster(api, stand)
            cluster.made = made
            await action(cluster)

    try:
        asyncio.run(do(CacheCluster.set_up))
        yield control_plane.kubeconfig
    finally:
        stand.stop()
        asyncio.run(do(CacheCluster.tear_down))


@pytest.fixture
async def cluster(guarded, stand):
    async with ApiClient(load_connection(guarded)) as api:
        cluster = CacheCluster(api, stand)
        yield cluster
        await cluster.delete_pods()


@pytest.fixture
async def served(cluster):
    """The cluster, while the webhook runs."""
    cluster.stand.start()
    return cluster


@pytest.fixture
async def bare(cluster):
    """The cluster, where somebody has deleted the webhook's configuration."""
    cluster.stand.stop()
    await cluster.unregister()
    return cluster


@pytest.fixture
async def namespace(cluster):
    return await cluster.make_namespace()


async def ready(cluster, namespace, name="kernels", **status):
    """Make a cache and wait until its pods are sent to the webhook, which knows it then."""
    await cluster.make_cache(namespace, name, **status)
    await cluster.registered(f"{namespace}/{name}")

    async def pinned():
        try:
            pod = await cluster.create(namespace, make_pod(mount(readOnly=True), claim=name), dry=True)
        except ApiError as exc:
            # Its process may still begin.
            if "failed calling webhook" not in str(exc):
                raise
            return False
        return pod["metadata"].get("annotations", {}).get(PINNED_ANNOTATION) == DIGEST

    await until(pinned)


async def test_pods_may_follow_their_cache_in_the_same_file(served, namespace):
    # Once it answers; what is announced is in its configuration before a cache is stored.
    await ready(served, namespace)
    for number in range(5):
        name = f"follows-{number}"
        await served.make_cache(namespace, name)
        pod = await served.create(namespace, make_pod(mount(), claim=name))
        assert pod["spec"]["initContainers"][0]["image"] == IMAGE


async def test_pods_may_follow_a_namespace_that_their_cache_gets(served, namespace):
    name, later = f"shared-{namespace}", f"later-{namespace}"
    await ready(served, namespace, name, spread=[namespace, later])
    spread = [namespace, later, await served.make_namespace()]
    await served.make_namespace(later)
    await served.api.patch(build_object_path(CLUSTER_CACHES, name), {"spec": {"workloadNamespaces": spread}})
    for place in reversed(spread):
        pod = await served.create(place, make_pod(mount(), claim=name))
        assert pod["spec"]["initContainers"][0]["image"] == IMAGE


async def test_pods_are_stored_with_one_digest_and_a_copy_of_their_own(served, namespace):
    await ready(served, namespace)
    lying = {PINNED_ANNOTATION: "sha256:" + "0" * 64, WRITABLE_ANNOTATION: "mine"}
    pod = await served.create(namespace, make_pod(mount(), annotations=lying))
    by_name = {each["name"]: each for each in pod["spec"]["volumes"]}
    assert by_name["files"]["persistentVolumeClaim"] == {"claimName": f"kernels{PINNED}", "readOnly": True}
    (filling,) = pod["spec"]["initContainers"]
    assert filling["image"] == IMAGE
    assert filling["volumeMounts"][0] == {"name": "files", "mountPath": "/accelkit/from", "readOnly": True}
    assert "emptyDir" in by_name[filling["name"]]
    assert pod["spec"]["containers"][0]["volumeMounts"][0]["name"] == filling["name"]
    annotations = pod["metadata"]["annotations"]
    assert annotations[PINNED_ANNOTATION] == DIGEST
    assert annotations[WRITABLE_ANNOTATION] == f"{filling['name']}={namespace}/kernels"


async def test_a_pod_that_asks_by_annotation_gets_mounts_and_variables(served, namespace):
    await ready(served, namespace)
    pod = await served.create(namespace, make_pod(claim="", annotations={MOUNT_ANNOTATION: "kernels=main"}))
    main = pod["spec"]["containers"][0]
    # That of the service account's token may come first.
    (copied,) = [each["name"] for each in main["volumeMounts"] if each["mountPath"] == "/cache"]
    assert copied in [each["name"] for each in pod["spec"]["initContainers"]]
    assert {each["name"] for each in main["env"]} == {"TRITON_CACHE_DIR", "VLLM_CACHE_ROOT"}
    asked = make_pod(claim="", annotations={MOUNT_ANNOTATION: "unknown"})
    assert "does not have; it has kernels" in await served.refusal(namespace, asked)


async def test_an_ephemeral_volume_that_is_called_as_a_cache_is_refused(served, namespace):
    await ready(served, namespace, "early-bird")
    for pod in (owning("bird", pod="early"), owning(PINNED[1:], pod="early-bird")):
        assert "has the name of one of a kernel cache; rename the volume" in await served.refusal(namespace, pod)
    await served.create(namespace, owning("data", pod="early-bird-2"))
    assert "early-bird-2" not in served.stand.asked()


async def test_the_pods_of_a_cache_of_the_cluster_and_no_others(served, namespace):
    other = await served.make_namespace()
    name = f"shared-{namespace}"
    await ready(served, namespace, name, spread=[namespace])
    foreign = await served.create(other, make_pod(mount(), claim=name))
    assert foreign["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": name}
    assert foreign["metadata"]["name"] not in served.stand.asked()


async def test_pods_that_do_not_concern_it_never_reach_it(served, namespace):
    await ready(served, namespace)
    concerned = make_pod(mount(readOnly=True))
    others = [make_pod(claim=""), make_pod(mount(), claim="data"), make_pod(mount(), claim="kernels-of-mine")]
    for pod in (*others, concerned):
        await served.create(namespace, pod)
    spared = make_pod(mount(readOnly=True))
    await served.create("kube-system", spared, dry=True)
    asked = served.stand.asked()
    assert concerned["metadata"]["name"] in asked
    assert not {each["metadata"]["name"] for each in (*others, spared)} & set(asked)


async def test_while_it_is_down_the_pods_of_caches_are_refused_and_others_do_not_notice(served, namespace):
    await ready(served, namespace)
    served.stand.stop()
    began = time.monotonic()
    assert await served.refusal(namespace, make_pod(claim="")) == ""
    assert await served.refusal(namespace, make_pod(mount(), claim="data")) == ""
    assert time.monotonic() - began < 5
    assert "failed calling webhook" in await served.refusal(namespace, make_pod(mount(readOnly=True)))
    asking = make_pod(claim="", annotations={MOUNT_ANNOTATION: "kernels"})
    assert "failed calling webhook" in await served.refusal(namespace, asking)


async def test_a_new_certificate_is_served_and_trusted(served, namespace):
    await ready(served, namespace)
    path = build_object_path(CONFIGURATIONS, CONFIGURATION)
    before = await served.api.get(path)
    served.stand.issue()

    async def trusted():
        return await served.api.get(path) != before

    await until(trusted)

    async def shown():
        # Whichever of both certificates it shows meanwhile.
        assert await served.refusal(namespace, make_pod(mount(readOnly=True))) == ""
        return await asyncio.to_thread(served.stand.shows_certificate)

    await until(shown)
    assert await served.refusal(namespace, make_pod(mount(readOnly=True))) == ""


async def test_somebody_elses_change_of_its_configuration_is_undone(served, namespace):
    await ready(served, namespace)
    path = build_object_path(CONFIGURATIONS, CONFIGURATION)
    await served.api.patch(
        path, [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}], kind="json"
    )

    async def undone():
        return b'"failurePolicy":"Fail"' in await served.api.get(path)

    await until(undone)


async def test_many_caches_at_once(served, namespace):
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


async def test_replicas_that_write_at_once_lose_nothing(bare, namespace):
    name = f"replicas-{namespace}"
    path = build_object_path(CONFIGURATIONS, name)
    endpoint = Endpoint(bare.stand.certificate, url=f"https://127.0.0.1:{free_port()}")
    # Neither sees what the other one was told.
    gates = [Gate(Registration(bare.api, name, endpoint, []), list, lambda: True) for _ in range(2)]
    made = [Cache(metadata=CacheMeta(name=f"cache-{number}", namespace=namespace)) for number in range(20)]
    try:
        # The first writes find no configuration.
        await asyncio.gather(*(gates[number % 2].announce(each) for number, each in enumerate(made[:2])))
        for number in range(2, 20, 6):
            await asyncio.gather(*(gates[each % 2].announce(made[each]) for each in range(number, number + 6)))
        stored = (await bare.api.get(path)).decode()
        assert [each.key for each in made if f"'{each.key}'" not in stored] == []
        assert await Registration(bare.api, name, endpoint, []).read_announced() == list_claims_of(made)
    finally:
        await delete_if_present(bare.api, path)


@pytest.mark.parametrize(
    ("most", "also"),
    [(MAX_EXPRESSION, set()), (70, {"elsewhere"}), (25, {"elsewhere", "data"}), (2, {"elsewhere", "data"})],
)
async def test_the_api_server_understands_each_way_of_naming_pods(bare, namespace, most, also):
    claims = {(namespace, "kernels"), (namespace, "more-of-them"), (namespace, "and-more"), (namespace, "elsewhere")}
    if most == MAX_EXPRESSION:
        # As many as are named one by one.
        claims = (claims - {(namespace, "elsewhere")}) | {("crowd", f"cache-{number:04}") for number in range(2800)}
    expression, exactness = build_expression(claims, most)
    assert (exactness is Exactness.CLAIMS) is (most == MAX_EXPRESSION)
    dead = {
        "name": "dead.accelkit.io",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://127.0.0.1:{free_port()}/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "matchConditions": [{"name": "ours", "expression": expression}],
        "sideEffects": "None",
    }
    body = {"apiVersion": API, "kind": KIND, "metadata": {"name": f"dead-{namespace}"}, "webhooks": [dead]}
    await bare.api.post(CONFIGURATIONS, body)
    try:
        sent = set()

        async def matched(pod):
            return "failed calling webhook" in await bare.refusal(namespace, pod)

        await until(lambda: matched(make_pod(mount(readOnly=True))))
        for claim in ("kernels", f"kernels{PINNED}", "elsewhere", "data"):
            if await matched(make_pod(mount(readOnly=True), claim=claim)):
                sent.add(claim)
        assert sent == {"kernels", f"kernels{PINNED}"} | also
        assert await matched(make_pod(claim="", annotations={MOUNT_ANNOTATION: "kernels"}))
        assert await matched(owning(PINNED[1:], pod="kernels"))
        # A policy sees names that are generated.
        assert not await matched(owning(PINNED[1:], generated="kernels"))
        assert not await matched(make_pod(claim=""))
        # However many claims a pod has, asking whether it is ours stays within what the API server spends.
        many = owning(*(f"own-{number}" for number in range(50)), pod="many")
        names = [f"other-{number}" for number in range(100)]
        many["spec"]["volumes"] += [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in names]
        assert (await bare.refusal(namespace, many) == "") is ("data" not in also)
    finally:
        await delete_if_present(bare.api, build_object_path(CONFIGURATIONS, f"dead-{namespace}"))
