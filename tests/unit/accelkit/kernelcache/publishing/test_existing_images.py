"""What a registry has already is told apart from what cannot be known."""

from __future__ import annotations

import json

import pytest
from private_sigstore import (
    SIGN_PREDICATE,
    PrivateSigstore,
    bundle_referrer,
    bundle_v3,
    example_image,
    fallback_tag,
    signature_image,
    signature_tag,
    simple_signing,
)
from registries import misbehaviour
from registries.artifact import Artifact, push
from registries.hostile import HostileRegistry
from registries.memory import INDEX
from registries.visiting import REPOSITORY, at, visiting

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.publishing.existing_images import find_digest, has_signature, list_attachments, list_members

IMAGE = example_image()
KEY = PrivateSigstore.new().key()
BUNDLE = bundle_referrer(bundle_v3(KEY, IMAGE.digest, tlog=False), IMAGE)


def put(registry: HostileRegistry, artifact: Artifact, tag: str | None = None) -> None:
    push(registry.url, REPOSITORY, artifact, tag=tag)


async def test_tag_resolves_to_digest_or_none(hostile_registry):
    put(hostile_registry, IMAGE, "v1")
    async with visiting(hostile_registry) as client:
        assert await find_digest(client, at(hostile_registry, "v1")) == IMAGE.digest
        assert await find_digest(client, at(hostile_registry, "v2")) is None


async def test_registry_error_is_not_treated_as_absent_image(hostile_registry):
    hostile_registry.on("GET", ".*/manifests/.*", misbehaviour.failing(403))
    async with visiting(hostile_registry) as client:
        with pytest.raises(RegistryError):
            await find_digest(client, at(hostile_registry, "v1"))
        with pytest.raises(RegistryError):
            await has_signature(client, at(hostile_registry, IMAGE.digest))


async def test_signatures_of_both_formats_are_found(hostile_registry):
    old = signature_image([simple_signing(KEY, IMAGE.digest, tlog=False)])
    put(hostile_registry, old, signature_tag(IMAGE.digest))
    put(hostile_registry, BUNDLE)
    async with visiting(hostile_registry) as client:
        found = await list_attachments(client, at(hostile_registry, IMAGE.digest))
    assert found == {old.digest: SIGN_PREDICATE, BUNDLE.digest: SIGN_PREDICATE}


@pytest.mark.parametrize("kind", [None, "application/vnd.oci.empty.v1+json"])
async def test_bundle_is_found_in_list_without_artifact_type(kind):
    listed = {name: value for name, value in BUNDLE.descriptor.items() if name != "artifactType"}
    listed |= {"artifactType": kind} if kind else {}
    with HostileRegistry(referrers=False) as registry:
        put(registry, BUNDLE)
        put(registry, index_of(listed), fallback_tag(IMAGE.digest))
        async with visiting(registry) as client:
            assert await has_signature(client, at(registry, IMAGE.digest))


async def test_attestation_and_other_referrers_are_not_signatures(hostile_registry):
    kind = "https://spdx.dev/Document"
    attestation = bundle_referrer(bundle_v3(KEY, IMAGE.digest, predicate_type=kind), IMAGE, predicate_type=kind)
    other = bundle_referrer(b"{}", IMAGE, artifact_type="application/spdx+json")
    for each in (attestation, other):
        put(hostile_registry, each)
    async with visiting(hostile_registry) as client:
        assert await list_attachments(client, at(hostile_registry, IMAGE.digest)) == {attestation.digest: kind}
        assert not await has_signature(client, at(hostile_registry, IMAGE.digest))


def index_of(*descriptors: dict) -> Artifact:
    document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": descriptors}
    return Artifact(json.dumps(document).encode(), (), INDEX)


async def test_nested_index_members_are_listed_once(hostile_registry):
    other = example_image(b"another layer")
    inner = index_of(IMAGE.descriptor, other.descriptor)
    outer = index_of(inner.descriptor, IMAGE.descriptor)
    for each in (IMAGE, other, inner, outer):
        put(hostile_registry, each)
    async with visiting(hostile_registry) as client:
        found = await list_members(client, at(hostile_registry, outer.digest))
        assert await list_members(client, at(hostile_registry, IMAGE.digest)) == [IMAGE.digest]
    assert found[0] == outer.digest
    assert sorted(found) == sorted(each.digest for each in (IMAGE, other, inner, outer))


async def test_indexes_nested_beyond_manifest_limit_are_rejected(hostile_registry, monkeypatch):
    monkeypatch.setattr("accelkit.kernelcache.publishing.existing_images.MAX_MANIFESTS", 3)
    inner = IMAGE
    for _ in range(3):
        put(hostile_registry, inner)
        inner = index_of(inner.descriptor)
    put(hostile_registry, inner)
    async with visiting(hostile_registry) as client:
        with pytest.raises(CacheError, match="more than 3 manifests"):
            await list_members(client, at(hostile_registry, inner.digest))


async def test_unreadable_index_member_raises_error(hostile_registry):
    index = index_of(IMAGE.descriptor)
    put(hostile_registry, index)
    async with visiting(hostile_registry) as client:
        with pytest.raises(RegistryError):
            await list_members(client, at(hostile_registry, index.digest))
