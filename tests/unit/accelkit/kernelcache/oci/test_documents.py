"""Manifests, indexes and configurations: what they are read as, and which tricks are refused."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from registries.memory import digest_of
from registries.visiting import manifest

from accelkit.errors import CacheError
from accelkit.kernelcache.oci.documents import (
    DOCKER_INDEX,
    DOCKER_MANIFEST,
    OCI_CONFIG,
    OCI_INDEX,
    OCI_MANIFEST,
    Index,
    Manifest,
    decode_config,
    decode_manifest,
)

ENTRY = {"mediaType": OCI_MANIFEST, "digest": digest_of(b"{}"), "size": 2}


def index(**more: object) -> bytes:
    return json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [ENTRY], **more}).encode()


def test_image_manifest_is_decoded():
    read = decode_manifest(manifest(layers=[ENTRY], annotations={"a": "b"}, subject=ENTRY), OCI_MANIFEST)
    assert isinstance(read, Manifest)
    assert (read.config.size, read.layers[0].digest, read.annotations) == (2, ENTRY["digest"], {"a": "b"})
    assert read.subject is not None
    assert read.subject.digest == ENTRY["digest"]


def test_index_is_decoded_with_platforms():
    read = decode_manifest(index(manifests=[{**ENTRY, "platform": {"os": "linux", "architecture": "arm64"}}]))
    assert isinstance(read, Index)
    assert read.manifests[0].platform is not None
    assert read.manifests[0].platform.architecture == "arm64"


@pytest.mark.parametrize("body", [manifest(mediaType=DOCKER_MANIFEST), manifest(mediaType=None)])
def test_manifest_with_docker_type_or_without_type_is_an_image(body):
    assert isinstance(decode_manifest(body, DOCKER_MANIFEST), Manifest)


def test_registry_media_type_ignores_parameters_and_case():
    assert isinstance(decode_manifest(manifest(mediaType=None), OCI_MANIFEST.upper() + "; charset=utf-8"), Manifest)


def test_null_fields_are_read_as_absent_or_empty():
    assert decode_manifest(index(manifests=None, annotations=None)) == Index(2, (), OCI_INDEX)
    read = decode_manifest(index(manifests=[{**ENTRY, "artifactType": None, "annotations": None}]))
    assert isinstance(read, Index)
    assert read.manifests[0].artifact_type == ""


def test_artifact_type_defaults_to_configuration_type():
    assert decode_manifest(manifest(artifactType="text/x")).artifact == "text/x"
    assert decode_manifest(manifest()).artifact == OCI_CONFIG


@pytest.mark.parametrize(
    ("body", "media_type", "words"),
    [
        (manifest(manifests=[]), "", "both an image and an index"),
        (manifest(manifests=None), "", "both an image and an index"),
        (index(layers=[]), "", "both an image and an index"),
        (index(config=ENTRY), "", "both an image and an index"),
        (manifest(), OCI_INDEX, "but the registry states"),
        (manifest(), DOCKER_MANIFEST, "but the registry states"),
        (manifest(mediaType=OCI_INDEX), "", "but the fields of another type"),
        (manifest(mediaType=None), DOCKER_INDEX, "but the fields of another type"),
        (index(mediaType=OCI_MANIFEST), "", "but the fields of another type"),
        (manifest(mediaType="text/plain"), "", "not a manifest type"),
        (manifest(mediaType=["x"]), "", "cannot decode a manifest"),
        (manifest(schemaVersion=1), "", "schema version"),
        (manifest(schemaVersion="2"), "", "cannot decode a manifest"),
        (manifest(config=None), "", "cannot decode a manifest"),
        (manifest(layers={}), "", "cannot decode a manifest"),
        (manifest(annotations={"a": 1}), "", "cannot decode a manifest"),
    ],
)
def test_ambiguous_or_inconsistent_document_is_rejected(body, media_type, words):
    with pytest.raises(CacheError, match=words):
        decode_manifest(body, media_type)


@pytest.mark.parametrize(
    "changed",
    [
        {"digest": "sha256:" + "0" * 63},
        {"digest": "sha256:" + "A" * 64},
        {"digest": "sha256:../../" + "0" * 58},
        {"digest": "md5:" + "0" * 64},
        {"size": -1},
        {"size": 1 << 63},
    ],
)
@pytest.mark.parametrize("place", ["config", "layers", "subject", "manifests"])
def test_invalid_descriptor_is_rejected_in_every_field(changed, place):
    bad = {**ENTRY, **changed}
    body = {
        "config": manifest(config=bad),
        "layers": manifest(layers=[ENTRY, bad]),
        "subject": manifest(subject=bad),
        "manifests": index(manifests=[bad]),
    }[place]
    with pytest.raises(CacheError, match="invalid descriptor"):
        decode_manifest(body)


def test_more_than_128_layers_are_refused():
    assert isinstance(decode_manifest(manifest(layers=[ENTRY] * 128)), Manifest)
    with pytest.raises(CacheError, match="129 layers"):
        decode_manifest(manifest(layers=[ENTRY] * 129))


@pytest.mark.parametrize(
    "body",
    [
        manifest().replace(b'"layers": []', b'"layers": [], "layers": []'),
        manifest(annotations={"a": "x", "b": "y"}).replace(b'"b"', b'"a"'),
        manifest().replace(b'"size": 2', b'"size": 2, "size": 3'),
        manifest(Layers=[]),
        manifest(MEDIATYPE=OCI_MANIFEST),
    ],
)
def test_repeated_field_name_is_rejected(body):
    with pytest.raises(CacheError, match=r"repeated|only in case"):
        decode_manifest(body)


def test_annotation_names_may_differ_only_in_case():
    assert decode_manifest(manifest(annotations={"a": "x", "A": "y"})).annotations == {"a": "x", "A": "y"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'"manifests"',
        b"<html>",
        b"\xff\xfe{\x00}\x00",
        b"[" * 200_000,
        manifest(annotations={"a": "x"}).replace(b'"x"', b'{"a":' * 100_000),
        manifest(x=1).replace(b'"x": 1', b'"x": NaN'),
        manifest(x=1).replace(b'"x": 1', b'"x": ' + b"9" * 5000),
        manifest(annotations={"a": "x"}).replace(b'"x"', b'"\\ud800"'),
        manifest() + b"{}",
    ],
    ids=range(12),
)
def test_invalid_json_object_is_rejected(body):
    with pytest.raises(CacheError):
        decode_manifest(body)


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.just(ENTRY))
MEMBERS = st.sampled_from(["mediaType", "config", "layers", "manifests", "subject", "annotations", "schemaVersion"])


@given(st.dictionaries(MEMBERS, st.recursive(LEAVES, st.lists, max_leaves=5)), st.sampled_from(["", OCI_INDEX, "x"]))
def test_decode_manifest_raises_only_cache_error(fields, media_type):
    with contextlib.suppress(CacheError):
        decode_manifest(json.dumps({"schemaVersion": 2, **fields}).encode(), media_type)


def test_configuration_is_decoded_with_platform_and_labels():
    read = decode_config(b'{"architecture":"arm64","os":"linux","config":{"Labels":{"a":"b"},"Env":null},"rootfs":{}}')
    assert (read.architecture, read.os, read.labels) == ("arm64", "linux", {"a": "b"})


@pytest.mark.parametrize("body", [b"{}", b'{"config":null}', b'{"config":{"Labels":null}}'])
def test_configuration_without_labels_has_empty_labels(body):
    assert decode_config(body).labels == {}


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"config":{"Labels":{"a":1}}}', b'{"x":' + b"[" * 200_000])
def test_malformed_configuration_is_rejected(body):
    with pytest.raises(CacheError, match="configuration"):
        decode_config(body)
