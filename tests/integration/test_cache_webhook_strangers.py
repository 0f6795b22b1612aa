"""A stranger who reaches the port of the webhook, which is a process of its own, beside an API server that asks it."""

import asyncio
import json
import ssl

import pytest
from cache_cluster import PINNED, CacheCluster, make_pod, mount
from ports import free_port
from support.waiting import DEADLINE, until
from webhook_stand import Stand

from accelkit.cachecontroller.webhook.server import PATH
from accelkit.errors import ApiError
from accelkit.kube.client import ApiClient
from accelkit.kube.connection import load_connection
from accelkit.model.keys import CACHE_MOUNT_ANNOTATION

pytestmark = [pytest.mark.integration, pytest.mark.extended, pytest.mark.timeout(600)]

# Half of what the controller's container may have.
MOST_BYTES = 512 << 20
BODY_BYTES = 4 << 20
CONNECTIONS, TURNS = 8, 3
# What decodes to many objects for each byte of it, and where in a review it stands.
COSTLY = b"[[]],"
PLACES = {
    "a field that nothing reads": {"spec": {"volumes": [], "other": "HERE"}},
    "volumes": {"spec": {"volumes": "HERE"}},
    "containers of a pod that asks for a cache": {
        "metadata": {"annotations": {CACHE_MOUNT_ANNOTATION: "missing"}},
        "spec": {"containers": "HERE"},
    },
    "annotations": {"metadata": {"annotations": "NAMES"}},
    "claims that are not known": {"spec": {"volumes": "CLAIMS"}},
}


def build_body(pod):
    """A valid review of 4 MiB."""
    kind, named = {"kind": "Pod"}, {**pod, "metadata": {"name": "stranger", **pod.get("metadata", {})}}
    request = {"uid": "u", "namespace": "default", "operation": "CREATE", "kind": kind, "object": named}
    whole = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    text = json.dumps(whole).encode()
    room = BODY_BYTES - len(text) - 100
    names = b",".join(b'"%06d":""' % number for number in range(room // 12))
    claim = b'{"name":"v","persistentVolumeClaim":{"claimName":"c-%05d"}}'
    claims = b",".join(claim % number for number in range(40_000))
    fillings = {b'"HERE"': b"[" + COSTLY * (room // 5) + b"[]]", b'"NAMES"': b"{" + names + b"}"}
    for mark, filling in {**fillings, b'"CLAIMS"': b"[" + claims + b"]"}.items():
        text = text.replace(mark, filling)
    assert room // 2 < len(text) <= BODY_BYTES
    return text


@pytest.fixture
async def cluster(control_plane, defined, tmp_path):
    stand = Stand(tmp_path, control_plane.kubeconfig, free_port())
    stand.issue()
    async with ApiClient(load_connection(control_plane.kubeconfig)) as api:
        cluster = CacheCluster(api, stand)
        stand.start()
        try:
            await cluster.register()
            yield cluster
        finally:
            stand.stop()
            await cluster.unregister()
            await cluster.delete_pods()


async def test_costly_reviews_use_bounded_memory_and_block_no_other_review(cluster):
    namespace = await cluster.make_namespace()
    await cluster.make_cache(namespace)

    async def create():
        pod = await cluster.create(namespace, make_pod(mount(readOnly=True)), dry=True)
        return pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"]

    async def answers():
        try:
            return await create() == f"kernels{PINNED}"
        except ApiError:
            return False

    await until(answers)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    bodies = [build_body(pod) for pod in PLACES.values()]

    async def send(number):
        for turn in range(TURNS * len(bodies)):
            body = bodies[(number + turn) % len(bodies)]
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", cluster.stand.port, ssl=context)
                head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                await reader.read()
                writer.transport.abort()
            except OSError:
                # A stranger's connection may be refused or cut.
                continue

    async with asyncio.timeout(10 * DEADLINE):
        sending = asyncio.gather(*(send(number) for number in range(CONNECTIONS)))
        created = 0
        while not sending.done():
            # The API server gives the webhook a few seconds, then it refuses the pod: that is an error here.
            assert await create() == f"kernels{PINNED}"
            created += 1
        await sending
    assert created
    cluster.stand.check()
    assert cluster.stand.peak_bytes() < MOST_BYTES
