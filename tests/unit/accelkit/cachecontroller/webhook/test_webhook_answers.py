"""What the webhook answers the API server."""

import asyncio
import base64
import json

import pytest
from ports import free_port
from webhook_pods import IMAGE, NAMESPACE, make_cache, make_pod, mount, review

from accelkit.cachecontroller.webhook.mutation import Tools
from accelkit.cachecontroller.webhook.server import WebhookServer
from accelkit.model.keys import CACHE_MOUNT_ANNOTATION
from accelkit.serving.tls import Listen

PATH = "/mutate-pods"


@pytest.fixture
async def known():
    """The caches that are known; None for not read yet."""
    return {"caches": [make_cache()], "stored": [], "looked_up": []}


@pytest.fixture
async def server(known):
    """A webhook, asked without a port."""

    async def look_up(namespace, names):
        known["looked_up"].append((namespace, sorted(names)))
        return [each for each in known["stored"] if each.metadata.name in names]

    listen = Listen("127.0.0.1", free_port())
    server = WebhookServer(listen, lambda: known["caches"], Tools(IMAGE), look_up)
    yield server
    stop = asyncio.Event()
    stop.set()
    await server.run(stop)


async def ask(server, body, path=PATH):
    reply = await server.handle("POST", path, body)
    assert reply.status == 200, reply.body
    answer = json.loads(reply.body)
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["uid"] == "u-1"
    return answer["response"]


async def test_webhook_returns_json_patch_also_in_dry_run(server):
    answer = await ask(server, review(make_pod(mount(readOnly=True))))
    assert (answer["allowed"], answer["patchType"]) == (True, "JSONPatch")
    patch = json.loads(base64.b64decode(answer["patch"]))
    assert {each["path"] for each in patch} == {"/metadata/annotations", "/spec/volumes"}
    assert server.answers == {"changed": 1}
    body = review(make_pod(mount(readOnly=True)))
    dry = review(make_pod(mount(readOnly=True)), dryRun=True)
    assert await ask(server, dry) == await ask(server, body)


async def test_unrelated_pods_and_requests_are_allowed_unchanged(server):
    bodies = [
        review(make_pod(claim="")),
        review(make_pod(mount()), operation="UPDATE"),
        review(make_pod(mount()), kind={"kind": "Deployment"}),
        review(None, operation="DELETE"),
    ]
    for body in bodies:
        assert await ask(server, body) == {"uid": "u-1", "allowed": True}
    assert server.answers == {"unchanged": 4}


async def test_refusal_contains_reason(server):
    answer = await ask(server, review(make_pod(annotations={CACHE_MOUNT_ANNOTATION: "kernels=nobody"})))
    assert answer["allowed"] is False
    assert answer["status"]["code"] == 403
    assert "use one of: main" in answer["status"]["message"]
    assert server.answers == {"refused": 1}


async def test_warnings_are_limited_in_number_and_length(server, known):
    known["caches"] = [make_cache(recorded_environment={f"VLLM_{number}": "x" for number in range(20)})]
    env = [{"name": f"VLLM_{number}", "value": "y" * 500} for number in range(20)]
    answer = await ask(server, review(make_pod(mount(readOnly=True), main={"env": env})))
    assert len(answer["warnings"]) == 12
    assert max(len(each) for each in answer["warnings"]) <= 256


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a known cache"])
async def test_claim_of_cache_missing_from_watch_is_looked_up(server, known, beside):
    known["stored"] = [make_cache("late")]
    pod = make_pod(mount(readOnly=True), claim="late")
    if beside:
        pod["spec"]["volumes"].append({"name": "second", "persistentVolumeClaim": {"claimName": "kernels"}})
    answer = await ask(server, review(pod))
    patch = json.loads(base64.b64decode(answer["patch"]))
    (volumes,) = [each["value"] for each in patch if each["path"] == "/spec/volumes"]
    assert volumes[0]["persistentVolumeClaim"]["claimName"].startswith("late-")
    assert known["looked_up"] == [(NAMESPACE, ["late"])]


async def test_looked_up_cache_replaces_version_from_watch(server, known):
    known["caches"] = [make_cache("shared", "", spec={"workload_namespaces": ("elsewhere",)})]
    known["stored"] = [make_cache("shared", "", spec={"workload_namespaces": ("elsewhere", NAMESPACE)})]
    assert "patch" in await ask(server, review(make_pod(mount(readOnly=True), claim="shared")))


async def test_unknown_claim_is_looked_up_once(server, known):
    assert await ask(server, review(make_pod(mount(), claim="data"))) == {"uid": "u-1", "allowed": True}
    assert known["looked_up"] == [(NAMESPACE, ["data"])]


async def test_cache_in_annotation_that_is_missing_from_watch_is_looked_up(server, known):
    pod = make_pod(mount(), claim="data", annotations={CACHE_MOUNT_ANNOTATION: "nothing"})
    answer = await ask(server, review(pod))
    assert "existing caches: kernels" in answer["status"]["message"]
    assert len(known["looked_up"]) == 1
    known["stored"] = [make_cache("late"), make_cache("later")]
    pod = make_pod(claim="", annotations={CACHE_MOUNT_ANNOTATION: "late,later=main:/there"})
    assert "patch" in await ask(server, review(pod))


async def test_webhook_returns_503_until_caches_are_read(server, known):
    known["caches"] = None
    assert (await server.handle("POST", PATH, review(make_pod(mount())))).status == 503
    assert known["looked_up"] == []


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", PATH, b"", 404),
        ("POST", "/", b"", 404),
        ("POST", PATH, b"", 400),
        ("POST", PATH, b"\xff", 400),
        ("POST", PATH, b"{}", 400),
        ("POST", PATH, review({}).replace(b"k8s.io/v1", b"k8s.io/v2"), 400),
        ("POST", PATH, b"[" * 100_000, 400),
    ],
)
async def test_invalid_admission_review_is_rejected(server, method, path, body, status):
    assert (await server.handle(method, path, body)).status == status


async def test_idle_connections_with_large_bodies_do_not_block_reviews():
    listen, stop = Listen("127.0.0.1", free_port()), asyncio.Event()
    serving = asyncio.create_task(WebhookServer(listen, lambda: [make_cache()], Tools(IMAGE)).run(stop))
    await asyncio.sleep(0)

    body, writers = review(make_pod(mount(readOnly=True))), []

    async def send(length, text=b""):
        reader, writer = await asyncio.open_connection(listen.host, listen.port)
        writers.append(writer)
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
        writer.write(head.encode() + text)
        return reader

    async with asyncio.timeout(30):
        for _ in range(64):
            await send(4 << 20)
        assert (await (await send(1 + (4 << 20))).readline()).startswith(b"HTTP/1.1 413 ")
        assert (await (await send(len(body), body)).readline()).startswith(b"HTTP/1.1 200 ")
        for writer in writers:
            writer.close()
        stop.set()
        await serving


async def test_response_does_not_repeat_client_input(server):
    long = "u" * (3 << 20)
    valid = review(make_pod(mount()))
    for body in (review(make_pod(mount()), uid=long), valid.replace(b"admission.k8s.io/v1", long.encode())):
        reply = await server.handle("POST", PATH, body)
        assert reply.status == 400
        assert len(reply.body) < 1000
