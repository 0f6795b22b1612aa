"""SignerPolicies on a real API server: what is taken, what is refused in which words, and what null does not become."""

from __future__ import annotations

from typing import Any

import pytest
from cache_definitions import STRICT, manifest

from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.signatures.policy_objects import parse_policies

pytest_plugins = ["cache_fixtures"]
pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

NAMESPACE = "default"


SIGNER = {"key": {"data": "PEM"}}


def policy(*signers: Any, **spec: Any) -> dict[str, Any]:
    return manifest("SignerPolicy", spec={"images": ["quay.io/acme/**"], "signers": [*(signers or (SIGNER,))], **spec})


@pytest.mark.parametrize(
    "images", [["**"], ["docker.io/nginx"], ["localhost/a"], ["r.test:5000/a/*"], ["*.acme.test/**"], ["QUAY.io/a"]]
)
async def test_policy_with_fields_of_policy_file_is_accepted(there, images):
    identity = {"issuer": "https://idp.test", "subjectPattern": "https://github\\.com/acme/.*"}
    signers = [
        {"name": "ci", "keyless": identity, "annotations": {"env": "prod"}},
        {"key": {"data": "PEM"}, "transparencyLog": "notRequired"},
        {"ca": {"data": "PEM", "subject": "build@acme.example"}},
        {"ca": {"data": "PEM"}},
    ]
    taken = await there.take(policy(*signers, images=images, namespaces=["team-*"]))
    assert taken["spec"]["images"] == images


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"images": []}, "should have at least 1 items"),
        ({"images": ["nginx"]}, "images are named with their registry, such as docker.io/acme/app"),
        ({"images": ["acme/app"]}, "images are named with their registry"),
        ({"images": ["quay.io/Acme/*"]}, "images are repositories in lower case"),
        ({"images": ["quay.io/acme/app:v1"]}, "images are repositories in lower case, without tag and digest"),
        ({"images": ["quay.io/"]}, "images are repositories in lower case"),
        ({"namespaces": []}, "should have at least 1 items"),
        ({"signers": []}, "should have at least 1 items"),
        ({"signers": [{"name": "nobody"}]}, "a signer is one of keyless, key and ca"),
        ({"signers": [SIGNER | {"ca": {"data": "PEM"}}]}, "a signer is one of keyless, key and ca"),
        ({"signers": [{"keyless": {"issuer": "a"}}]}, "keyless needs a subject or a subjectPattern, and not both"),
        ({"signers": [{"keyless": {"subject": "a"}}]}, "keyless needs an issuer or an issuerPattern, and not both"),
        (
            {"signers": [{"keyless": {"issuer": "a", "subject": "b", "data": "c"}}]},
            "keyless has neither data nor file",
        ),
        ({"signers": [{"key": {"file": "a.pub"}}]}, "an object of a cluster has no files; copy the content"),
        ({"signers": [{"key": {"data": "PEM", "subject": "a"}}]}, "a key must not have an issuer or a subject"),
        ({"signers": [{"ca": {}}]}, "ca needs data, which is PEM text of certificates"),
        ({"signers": [{"ca": {"data": "PEM", "subject": ""}}]}, "should be at least 1 chars long"),
        ({"signers": [{"ca": {"data": "PEM", "subject": "a", "subjectPattern": "b"}}]}, "and not both"),
        ({"signers": [SIGNER | {"transparencyLog": "maybe"}]}, 'supported values: "required", "notRequired"'),
        ({"namespace": ["prod"]}, 'unknown field "spec.namespace"'),
    ],
)
async def test_invalid_policy_is_rejected_with_correction(there, spec, words):
    assert words in await there.refusal(policy(**spec))


@pytest.mark.parametrize(
    "spec",
    [
        {"namespaces": None},
        {"signers": [{"ca": {"data": "PEM", "subject": None}}]},
        {"signers": [SIGNER | {"annotations": None}]},
        {"signers": [SIGNER | {"annotations": {"env": None}}]},
    ],
    ids=["namespaces", "subject", "annotations", "annotation"],
)
async def test_policy_with_null_field_is_invalid(there, spec):
    taken = await there.take(policy(**spec))
    broken = parse_policies([("x", taken["spec"])])
    assert "got `null`" in broken.broken["x"]
    assert broken.find_broken(parse_reference("quay.io/acme/app:v1"), NAMESPACE)


async def test_policy_table_has_images_and_namespaces_columns(there):
    made = policy(namespaces=["team-*"])
    made["metadata"]["name"] = "shown"
    await there.api.post(there.path("SignerPolicy"), made, query=STRICT)
    shown = await there.table("SignerPolicy", "shown")
    assert (shown["Images"], shown["Namespaces"]) == ('["quay.io/acme/**"]', '["team-*"]')
