"""Pods of which only the fields that are used are decoded."""

import asyncio
import base64
import json
import tracemalloc

import msgspec
import pytest
from ports import free_port
from webhook_pods import IMAGE, NAMESPACE, apply, make_cache, make_pod, mount, review

from accelkit.cachecontroller.webhook.mutation import Mutation, Tools, mutate
from accelkit.cachecontroller.webhook.reviews import MOST_DELIMITERS, ReviewedPod, read_review
from accelkit.cachecontroller.webhook.server import WebhookServer
from accelkit.model.keys import CACHE_MOUNT_ANNOTATION, CACHE_PINNED_ANNOTATION
from accelkit.serving.tls import Listen

PATH = "/mutate-pods"
# 4 MiB of this take 125 MiB once decoded.
COSTLY = [[[]]] * 800_000
NEW_FIELDS = {"someFieldOfALaterVersion": {"deep": [1, 2.5, None, {"x": "ü"}]}}


@pytest.fixture
async def server():
    server = WebhookServer(Listen("127.0.0.1", free_port()), lambda: [make_cache()], Tools(IMAGE))
    yield server
    stop = asyncio.Event()
    stop.set()
    await server.run(stop)


async def ask(server, pod, path=PATH, **fields):
    reply = await server.handle("POST", path, review(pod, **fields))
    return reply.status, json.loads(reply.body).get("response")


def with_new_fields(pod):
    """The pod, where a later version of Kubernetes has added a field to each object that is looked at."""
    pod["metadata"]["annotations"] = {
        "team/owner~": "a",
        CACHE_PINNED_ANNOTATION: "lie",
        **pod["metadata"]["annotations"],
    }
    for part in (pod, pod["metadata"], pod["spec"], *pod["spec"]["volumes"], *pod["spec"]["containers"]):
        part.update(NEW_FIELDS)
    pod["spec"]["containers"][0]["volumeMounts"][0].update(NEW_FIELDS)
    pod["spec"]["affinity"] = {"nodeAffinity": NEW_FIELDS, **NEW_FIELDS}
    return pod


async def test_fields_that_are_not_decoded_are_preserved(server):
    pod = with_new_fields(make_pod(mount(), annotations={}))
    status, answer = await ask(server, pod)
    assert status == 200
    patch = json.loads(base64.b64decode(answer["patch"]))
    # The same as for the whole pod, and what the patch names is all that changes.
    whole = mutate(pod, NAMESPACE, [make_cache()], Tools(IMAGE))
    assert patch == json.loads(msgspec.json.encode(whole.patch))
    after = apply(Mutation(tuple(patch)), pod)
    for part in (after, after["metadata"], after["spec"], after["spec"]["volumes"][0], after["spec"]["containers"][0]):
        assert part["someFieldOfALaterVersion"] == NEW_FIELDS["someFieldOfALaterVersion"]
    assert after["spec"]["containers"][0]["volumeMounts"][0]["someFieldOfALaterVersion"]
    assert after["spec"]["affinity"] == pod["spec"]["affinity"]
    assert after["metadata"]["annotations"]["team/owner~"] == "a"
    assert after["metadata"]["annotations"][CACHE_PINNED_ANNOTATION] != "lie"


@pytest.mark.parametrize("annotations", [{"team": "a"}, {}, None])
async def test_only_forged_annotation_is_removed(server, annotations):
    pod = make_pod(claim="", annotations=annotations)
    status, answer = await ask(server, pod)
    assert (status, answer) == (200, {"uid": "u-1", "allowed": True})
    if annotations is not None:
        pod["metadata"]["annotations"] = {**annotations, CACHE_PINNED_ANNOTATION: "lie"}
        _, answer = await ask(server, pod)
        (step,) = json.loads(base64.b64decode(answer["patch"]))
        assert step == {"op": "remove", "path": "/metadata/annotations/cache.accelkit.io~1pinned"}


async def test_patch_adds_annotations_object_if_pod_has_no_annotations(server):
    pod = make_pod(mount(readOnly=True))
    for absent in ({}, {"annotations": None}):
        pod["metadata"] = {"name": "pod", **absent}
        _, answer = await ask(server, pod)
        first = json.loads(base64.b64decode(answer["patch"]))[0]
        assert first["path"] == "/metadata/annotations"


ASKING = {"annotations": {CACHE_MOUNT_ANNOTATION: "kernels"}}


@pytest.mark.parametrize(
    ("pod", "allowed"),
    [
        ({"metadata": {"name": "p", "managedFields": COSTLY}, "spec": {}}, True),
        ({"metadata": {"name": "p"}, "spec": {"later": COSTLY}, "status": {}}, True),
        ({"metadata": {"name": "p"}, "spec": {"volumes": COSTLY}}, False),
        ({"metadata": ASKING, "spec": {"containers": COSTLY}}, False),
        ({"metadata": ASKING, "spec": {"containers": [{"name": "a", "env": COSTLY}]}}, False),
        ({"metadata": ASKING, "spec": {"affinity": {"nodeAffinity": COSTLY}}}, False),
    ],
    ids=["managed fields", "new field", "volumes", "containers", "variables", "affinity"],
)
async def test_costly_pod_is_reviewed_in_bounded_memory(server, pod, allowed):
    body = review(pod)
    tracemalloc.start()
    try:
        reply = await server.handle("POST", PATH, body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    answer = json.loads(reply.body)["response"]
    assert answer["allowed"] is allowed
    if not allowed:
        assert "over the limit of 200000" in answer["status"]["message"]
    # The text of the parts once more, and no objects.
    assert peak < 2 * len(body)


async def test_oversized_annotation_is_refused(server):
    _, answer = await ask(server, make_pod(claim="", annotations={CACHE_MOUNT_ANNOTATION: "a," * 40_000}))
    assert "more than 65536 characters" in answer["status"]["message"]


@pytest.mark.parametrize(
    "pod",
    [
        [],
        {"spec": []},
        {"metadata": {"annotations": {CACHE_MOUNT_ANNOTATION: 1}}},
        {"spec": {"volumes": [1]}},
        {"metadata": ASKING, "spec": {"containers": {}}},
    ],
)
async def test_pod_with_invalid_structure_is_rejected(server, pod):
    assert (await ask(server, pod))[0] == 400


def test_cost_of_pod_counts_only_decoded_values():
    def excess(count):
        pod = {"spec": {"containers": [{"name": "a", "args": ["x"] * count}], "other": ["x"] * MOST_DELIMITERS}}
        return ReviewedPod(read_review(review(pod)).request).describe_excess()

    # Beside the strings, two lists with an object in one of them, and its two keys.
    assert excess(MOST_DELIMITERS - 10) == ""
    assert excess(MOST_DELIMITERS + 10).startswith(f"the pod has {MOST_DELIMITERS + 15} values")
