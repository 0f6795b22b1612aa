"""What the webhook answers the API server."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest
from ports import free_port
from webhook_pods import IMAGE, NAMESPACE, make_cache, make_pod, mount

from accelkit.cachecontroller.webhook.mutation import Tools
from accelkit.cachecontroller.webhook.server import WebhookServer
from accelkit.gkm.names import MOUNT_ANNOTATION
from accelkit.serving.tls import Listen

PATH = "/mutate-pods"


def review(pod, **fields):
    """An AdmissionReview."""
    request = {"uid": "u-1", "namespace": NAMESPACE, "operation": "CREATE", "kind": {"kind": "Pod"}, "object": pod}
    whole = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**request, **fields}}
    return json.dumps(whole).encode()


@pytest.fixture
async def known():
    """The caches that are known; None for not read yet."""
    return {"caches": [make_cache()]}


@pytest.fixture
async def server(known):
    """A webhook, asked without a port."""
    server = WebhookServer(Listen("127.0.0.1", free_port()), lambda: known["caches"], Tools(IMAGE))
    yield server
    stop = asyncio.Event()
    stop.set()
    await server.run(stop)


async def ask(server, body):
    reply = await server.handle("POST", PATH, body)
    assert reply.status == 200, reply.body
    answer = json.loads(reply.body)
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"]["uid"] == "u-1"
    return answer["response"]


async def test_a_change_is_a_json_patch(server):
    answer = await ask(server, review(make_pod(mount(readOnly=True))))
    assert (answer["allowed"], answer["patchType"]) == (True, "JSONPatch")
    patch = json.loads(base64.b64decode(answer["patch"]))
    assert {each["path"] for each in patch} == {"/metadata/annotations", "/spec/volumes"}
    assert server.answers == {"changed": 1}


async def test_other_pods_and_other_requests_are_allowed_as_they_are(server):
    bodies = [
        review(make_pod(claim="")),
        review(make_pod(mount()), operation="UPDATE"),
        review(make_pod(mount()), kind={"kind": "Deployment"}),
        review(None, operation="DELETE"),
    ]
    for body in bodies:
        assert await ask(server, body) == {"uid": "u-1", "allowed": True}
    assert server.answers == {"unchanged": 4}


async def test_a_refusal_says_why(server):
    answer = await ask(server, review(make_pod(annotations={MOUNT_ANNOTATION: "kernels=nobody"})))
    assert answer["allowed"] is False
    assert answer["status"]["code"] == 403
    assert "the pod has main" in answer["status"]["message"]
    assert server.answers == {"refused": 1}


async def test_warnings_are_as_short_as_the_api_server_wants_them(server, known):
    known["caches"] = [make_cache(recorded_environment={f"VLLM_{number}": "x" for number in range(20)})]
    env = [{"name": f"VLLM_{number}", "value": "y" * 500} for number in range(20)]
    answer = await ask(server, review(make_pod(mount(readOnly=True), main={"env": env})))
    assert len(answer["warnings"]) == 12
    assert max(len(each) for each in answer["warnings"]) <= 256


async def test_a_cache_that_becomes_known_in_a_moment_is_waited_for(server, known):
    pod = make_pod(claim="", annotations={MOUNT_ANNOTATION: "late"})
    asked = asyncio.create_task(ask(server, review(pod)))
    await asyncio.sleep(0)
    known["caches"] = [make_cache("late")]
    assert "patch" in await asked


async def test_nothing_is_answered_while_no_cache_has_been_read(server, known):
    known["caches"] = None
    assert (await server.handle("POST", PATH, review(make_pod(mount())))).status == 503


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
        ("POST", PATH, b" " * (9 << 20), 413),
    ],
)
async def test_what_is_no_review_is_refused(server, method, path, body, status):
    assert (await server.handle(method, path, body)).status == status
