"""SignerPolicy objects of a cluster: what they cover, and that a wrong one widens nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from signing_stand import SIGNER, SIGSTORE, by_key, keyless, signing_stand

from accelkit.errors import ConfigurationError
from accelkit.kernelcache.oci.reference import Reference, parse_reference
from accelkit.kernelcache.registry import RegistryClient, RegistryCredentials, RegistrySettings
from accelkit.kernelcache.signatures import RejectionReason, UnverifiedError, verify_image
from accelkit.kernelcache.signatures.policy_objects import PolicySet, parse_policies

APP = parse_reference("quay.io/acme/app:v1")
OTHER = parse_reference("quay.io/other/app:v1")


def spec(*signers: Any, images: Any = ("quay.io/acme/**",), **more: Any) -> dict[str, Any]:
    return {"images": list(images), "signers": list(signers or (keyless(),)), **more}


def parsed(**specs: Any) -> PolicySet:
    # As the API server sends them.
    return parse_policies((name, json.loads(json.dumps(each))) for name, each in specs.items())


def names(policies: PolicySet, image: Reference, namespace: str | None) -> list[str]:
    return [each.name for each in policies.policies.select(image, namespace)]


def test_policy_objects_select_by_image_and_namespace():
    policies = parsed(acme=spec(by_key(SIGSTORE.key())), strict=spec(namespaces=["prod"]))
    assert not policies.broken
    assert names(policies, APP, "prod") == ["acme", "strict"]
    assert names(policies, APP, "dev") == ["acme"]
    assert names(policies, OTHER, "prod") == []


def test_empty_policy_set_covers_no_image():
    policies = parsed()
    assert names(policies, APP, "prod") == []
    assert policies.find_broken(APP, "prod") is None


@pytest.mark.parametrize(
    ("namespaces", "covered"),
    [
        (None, ["prod", "dev", None]),
        (["*"], ["prod", "dev", None]),
        (["prod"], ["prod"]),
        (["pro*"], ["prod"]),
        (["prod", "*"], ["prod", "dev", None]),
    ],
)
def test_policy_with_namespaces_covers_only_caches_of_those_namespaces(namespaces, covered):
    policies = parsed(acme=spec() if namespaces is None else spec(namespaces=namespaces))
    assert [each for each in ("prod", "dev", None) if names(policies, APP, each)] == covered


WRONG = [
    None,
    "text",
    [],
    {},
    spec({"name": "nobody"}),
    spec({"keyless": {"issuer": "https://idp.test", "subjectPattern": ".*"}}),
    spec({"keyless": {"issuer": "https://idp.test", "subjectPattern": "("}}),
    spec({"key": {"file": "release.pub"}}),
    spec({"key": {"data": "no key"}}),
    spec({"ca": {"data": "no certificate"}}),
    spec(by_key(SIGSTORE.key()) | {"annotations": None}),
    spec(by_key(SIGSTORE.key()) | {"annotations": {"env": None}}),
    spec(signer=[]),
    spec(namespaces=None),
    spec(namespaces=[]),
    spec(namespaces="prod"),
    spec() | {"signers": []},
    spec() | {"signers": None},
    spec(images=[]),
    spec(images=["quay.io/acme/**", "nginx"]),
    spec(images=["quay.io/acme/**", 5]),
]


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_invalid_object_blocks_images_in_scope_and_keeps_other_policies(wrong):
    policies = parsed(acme=spec(), wrong=wrong)
    assert list(policies.broken) == ["wrong"]
    assert "signer policy wrong" in policies.broken["wrong"]
    assert policies.find_broken(APP, "prod") == policies.broken["wrong"]
    assert [each.name for each in policies.policies.policies] == ["acme"]


@pytest.mark.parametrize(
    ("images", "namespaces", "image", "namespace", "may_cover"),
    [
        (["quay.io/acme/**"], ["prod"], APP, "prod", True),
        (["quay.io/acme/**"], ["prod"], APP, "dev", False),
        (["quay.io/acme/**"], ["prod"], APP, None, False),
        (["quay.io/acme/**"], ["prod"], OTHER, "prod", False),
        # What cannot be read may say anything.
        (["quay.io/acme/**", "nginx"], ["prod"], OTHER, "prod", True),
        (["quay.io/acme/**", "nginx"], ["prod"], OTHER, "dev", False),
        ("quay.io/acme/**", ["prod"], OTHER, "prod", True),
        (["quay.io/acme/**"], ["prod", 5], APP, "dev", True),
        (["quay.io/acme/**"], ["prod", ""], APP, None, True),
        (["quay.io/acme/**"], None, APP, None, True),
        (["quay.io/acme/**"], None, OTHER, None, False),
    ],
)
def test_invalid_object_blocks_only_images_in_scope(images, namespaces, image, namespace, may_cover):
    policies = parsed(wrong={"images": images, "namespaces": namespaces, "signers": []})
    assert (policies.find_broken(image, namespace) is not None) == may_cover


@pytest.mark.parametrize("field", ["subject", "subjectPattern", "issuer", "issuerPattern"])
@pytest.mark.parametrize("value", [None, ""])
def test_empty_identity_field_of_ca_signer_is_rejected(field, value):
    ca = {"ca": {"data": "PEM", field: value}}
    (why,) = parsed(wrong=spec(ca)).broken.values()
    assert field in why


def test_error_of_invalid_object_is_bounded_in_length():
    (why,) = parsed(wrong=spec({"key": {"file": "x" * 5000}}), right=spec()).broken.values()
    assert len(why) <= 512
    assert "a SignerPolicy object cannot use files" in why


def test_corrected_object_no_longer_blocks_images():
    assert parsed(acme=spec({"key": {"data": "no key"}})).find_broken(APP, None)
    assert parsed(acme=spec(by_key(SIGSTORE.key()))).find_broken(APP, None) is None


def test_missing_trusted_root_is_reported(tmp_path):
    with pytest.raises(ConfigurationError, match="trusted root"):
        parse_policies([], tmp_path / "absent.json")


class TestDigest:
    def test_digest_is_independent_of_object_and_field_order(self):
        one, two = spec(namespaces=["prod"]), spec(by_key(SIGSTORE.key()))
        turned = dict(reversed(one.items()))
        assert parsed(a=one, b=two).policies.digest == parsed(b=two, a=turned).policies.digest

    def test_digest_changes_if_policy_is_changed_invalid_removed_or_renamed(self):
        several = [
            parsed(a=spec()),
            parsed(),
            parsed(b=spec()),
            parsed(a=spec(namespaces=["prod"])),
            parsed(a=spec(), b=spec()),
            parsed(a=spec(), b=None),
            parsed(a=spec(), b={}),
        ]
        assert len({each.policies.digest for each in several}) == len(several)

    def test_digest_changes_with_trusted_root(self, tmp_path):
        roots = [tmp_path / "one.json", tmp_path / "two.json"]
        for number, root in enumerate(roots):
            root.write_text(json.dumps({"number": number}))
        digests = {parse_policies([("a", spec())], root).narrow(APP, None).digest for root in (None, *roots)}
        assert len(digests) == len((None, *roots))

    def test_digest_for_image_depends_only_on_policies_that_cover_image(self):
        before = parsed(acme=spec(), other=spec(images=["quay.io/other/**"]))
        after = parsed(acme=spec(), other=spec(images=["quay.io/other/*"]), prod=spec(namespaces=["prod"]))
        assert before.policies.digest != after.policies.digest
        assert before.narrow(APP, "dev").digest == after.narrow(APP, "dev").digest
        assert before.narrow(APP, "prod").digest != after.narrow(APP, "prod").digest
        assert before.narrow(OTHER, "dev").digest != after.narrow(OTHER, "dev").digest


async def test_image_is_verified_by_policy_objects(tmp_path):
    with signing_stand(tmp_path) as stand:
        stand.attach("cosign-v3", SIGNER)
        image = parse_reference(f"{stand.registry.host}/team/app:v1")
        specs = [
            ("ci", spec(images=["**"])),
            ("prod", spec(by_key(SIGSTORE.key()), images=["**"], namespaces=["prod"])),
        ]
        policies = parse_policies(specs, stand.root)
        settings = RegistrySettings(
            RegistryCredentials({}), plain_http=frozenset(stand.plain_http), mirrors={}, attempts=1
        )
        async with RegistryClient(settings) as client:
            for each in (policies.policies, policies.narrow(image, "dev")):
                verified = await verify_image(client, image, each, namespace="dev")
                assert [signature.policy for signature in verified.signatures] == ["ci"]
                assert verified.policy_digest == each.digest
            for each in (policies.policies, policies.narrow(image, "prod")):
                with pytest.raises(UnverifiedError, match="policy prod") as caught:
                    await verify_image(client, image, each, namespace="prod")
                assert caught.value.reason == RejectionReason.OTHER_KIND
            before = len(stand.registry.requests)
            with pytest.raises(UnverifiedError) as caught:
                await verify_image(client, image, parse_policies([]).policies, namespace="dev")
            assert caught.value.reason == RejectionReason.NOT_COVERED
            assert len(stand.registry.requests) == before
