"""GKMCaches and ClusterGKMCaches on a real API server: what is taken, and what is refused in which words."""

import json

import msgspec
import pytest
from cache_definitions import DEFINITIONS, DRY, cache, manifest
from gkm_manifests import CACHE_KINDS, read_gkm_manifests

from accelkit.examples.example import ALL_EXAMPLES
from accelkit.examples.objects import build_objects
from accelkit.gkm.objects import Cache

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NAMESPACE = "default"
DIGEST = "sha256:" + "a" * 64


async def test_each_definition_is_established_and_structural(there, defined):
    for name in defined.names:
        status = json.loads(await there.api.get(f"{DEFINITIONS}/{name}"))["status"]
        conditions = {each["type"]: each["status"] for each in status["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}


async def test_caches_of_examples_apply_with_strict_validation(there):
    caches = [each for example in ALL_EXAMPLES for each in build_objects(example) if "GKMCache" in each["kind"]]
    assert {each["kind"] for each in caches} == {"GKMCache", "ClusterGKMCache"}
    for each in caches:
        given = {**each, "metadata": {**each["metadata"]}}
        if each["kind"] == "GKMCache":
            given["metadata"]["namespace"] = NAMESPACE
        taken = await there.take(given)
        assert each["spec"].items() <= taken["spec"].items()
        where = f"{there.path(each['kind'])}/{each['metadata']['name']}"
        await there.api.patch(where, given, kind="apply", query=DRY)


async def test_gkm_examples_apply_with_strict_validation(there):
    caches = [each for each in read_gkm_manifests() if each["kind"] in CACHE_KINDS]
    for each in caches:
        if each["kind"] == "GKMCache":
            each["metadata"]["namespace"] = NAMESPACE
        await there.take(each)


GOOD = [
    cache(),
    cache("ClusterGKMCache"),
    cache("ClusterGKMCache", workloadNamespaces=["a", "b", "a"]),
    cache(workloadNamespaces=[NAMESPACE]),
    cache(name="a" * 253),
    cache(image="app"),
    cache(image=f"[::1]:5000/acme/cache:v1@{DIGEST}"),
    cache(image="localhost:5000/acme/cache__x", delivery="image", mountPath="/root/.cache"),
    cache(mountPath="", size="", storageClassName=""),
    cache(mountPath="/a/..b/c.d/.e", size="1.5Gi", delivery="namespace", imagePullSecrets=[{"name": "a.b"}]),
    cache(accessModes=["ReadWriteOnce", "ReadOnlyMany"], delivery="node"),
]


@pytest.mark.parametrize("each", GOOD, ids=range(len(GOOD)))
async def test_valid_cache_is_stored_unchanged(there, each):
    taken = await there.take(each)
    assert taken["spec"] == {"delivery": "auto", **each["spec"]}
    msgspec.json.decode(msgspec.json.encode(taken), type=Cache)


LONG = [f"n{number}" for number in range(1025)]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"image": ""}, "spec.image in body should be at least 1 chars long"),
        ({"image": "quay.io/a b"}, "image is REGISTRY/REPOSITORY:TAG or"),
        ({"image": "https://quay.io/a"}, "image must not have a scheme"),
        ({"image": "quay.io/a@sha256:12"}, "the digest of image is sha256: and 64 hexadecimal digits"),
        ({"image": "quay.io/" + "a" * 525}, "may not be more than 525"),
        ({"mountPath": "cache"}, "mountPath is absolute, such as /home/vllm/.cache/vllm"),
        ({"mountPath": "/a/../b"}, "mountPath has no parts . or .."),
        ({"mountPath": "/.."}, "mountPath has no parts . or .."),
        ({"mountPath": "//"}, "mountPath is not the root of the container"),
        ({"mountPath": "/a//b"}, "mountPath has no double slashes and none at its end"),
        ({"mountPath": "/a/"}, "mountPath has no double slashes and none at its end"),
        ({"mountPath": "/a:b"}, "mountPath has no colon and no control characters"),
        ({"mountPath": "/a\nb"}, "mountPath has no colon and no control characters"),
        ({"mountPath": "/" + "a" * 1024}, "may not be more than 1024"),
        ({"workloadNamespaces": ["a", "b"]}, "a GKMCache is only for its own namespace; create a ClusterGKMCache"),
        ({"workloadNamespaces": ["A"]}, "spec.workloadNamespaces[0]"),
        ({"delivery": "somehow"}, 'supported values: "auto", "node", "namespace", "image"'),
        ({"delivery": "image", "accessModes": ["ReadOnlyMany"]}, "delivery image has no claims: remove accessModes"),
        ({"delivery": "image", "size": "1Gi"}, "delivery image has no claims"),
        ({"accessModes": ["ReadWriteOncePod"]}, 'supported values: "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"'),
        ({"size": "0"}, "size is a quantity above 0"),
        ({"size": "-1Gi"}, "size is a quantity above 0"),
        ({"size": "1 GiB"}, "size is a quantity above 0"),
        ({"size": 5}, "must be of type string"),
        ({"imagePullSecrets": [{"name": "a"}, {"name": "a"}]}, "Duplicate value"),
        ({"imagePullSecrets": [{}]}, "Required value"),
        ({"podTemplate": {"spec": {"affinity": {"nodeAffinty": {}}}}}, 'unknown field "spec.podTemplate.spec.affinity'),
        ({"podTemplate": {"spec": {"hostNetwork": True}}}, 'unknown field "spec.podTemplate.spec.hostNetwork"'),
        ({"mountpath": "/a"}, 'unknown field "spec.mountpath"'),
    ],
)
async def test_invalid_cache_is_rejected_with_correction(there, spec, words):
    assert words in await there.refusal(cache(**spec))


async def test_a_cache_without_an_image_or_without_a_spec_is_refused(there):
    assert "spec.image: Required value" in await there.refusal(manifest("GKMCache", spec={}))
    assert "spec: Required value" in await there.refusal(manifest("ClusterGKMCache"))
    assert "Too many" in await there.refusal(cache("ClusterGKMCache", workloadNamespaces=LONG))
