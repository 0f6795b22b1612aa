"""Where signatures lie in a registry: the `.sig` image of cosign 2, the referrer of cosign 3 and its fallback tag."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from registries.artifact import Artifact
from registries.memory import INDEX, MANIFEST, digest_of

from private_sigstore.bundles import BUNDLE, SIGN_PREDICATE
from private_sigstore.simple_signing import SimpleSigning

__all__ = [
    "bundle_referrer",
    "example_image",
    "fallback_index",
    "fallback_tag",
    "signature_image",
    "signature_tag",
]

_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_EMPTY = "application/vnd.oci.empty.v1+json"
_SIMPLE_SIGNING = "application/vnd.dev.cosign.simplesigning.v1+json"


def example_image(layer: bytes = b"a layer", labels: Mapping[str, str] | None = None) -> Artifact:
    """An image to be signed; its layer is these bytes, whether or not they are an archive."""
    rootfs = {"type": "layers", "diff_ids": [digest_of(layer)]}
    config = {"architecture": "amd64", "os": "linux", "rootfs": rootfs, "config": {"Labels": dict(labels or {})}}
    return _image(_CONFIG, json.dumps(config).encode(), [_described(_LAYER, layer)], [layer])


def signature_tag(digest: str) -> str:
    """The tag of the `.sig` image of an image."""
    return f"{fallback_tag(digest)}.sig"


def signature_image(signings: Sequence[SimpleSigning]) -> Artifact:
    """A `.sig` image, a layer for each signature."""
    layers = [
        _described(_SIMPLE_SIGNING, signing.payload) | {"annotations": signing.annotations} for signing in signings
    ]
    payloads = [signing.payload for signing in signings]
    rootfs = {"type": "layers", "diff_ids": [digest_of(each) for each in payloads]}
    config = {"architecture": "", "os": "", "rootfs": rootfs, "config": {}}
    return _image(_CONFIG, json.dumps(config).encode(), layers, payloads)


def bundle_referrer(
    bundle: bytes, subject: Artifact, *, predicate_type: str = SIGN_PREDICATE, artifact_type: str | None = BUNDLE
) -> Artifact:
    """A bundle as a referrer of its subject.

    Args:
        bundle: the bundle's bytes.
        subject: what it refers to.
        predicate_type: what the manifest's annotation says of the bundle.
        artifact_type: of the manifest; None leaves it out.
    """
    document: dict[str, Any] = {
        "subject": {name: subject.descriptor[name] for name in ("mediaType", "digest", "size")},
        "annotations": {
            "dev.sigstore.bundle.content": "dsse-envelope",
            "dev.sigstore.bundle.predicateType": predicate_type,
            "org.opencontainers.image.created": "2025-06-01T12:00:00Z",
        },
    }
    if artifact_type is not None:
        document["artifactType"] = artifact_type
    return _image(_EMPTY, b"{}", [_described(BUNDLE, bundle)], [bundle], **document)


def fallback_tag(digest: str) -> str:
    """The tag of the index that stands in for the referrers API."""
    return digest.replace(":", "-")


def fallback_index(referrers: Sequence[Artifact]) -> Artifact:
    """The index that stands in for the referrers API."""
    document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [each.descriptor for each in referrers]}
    return Artifact(json.dumps(document).encode(), (), INDEX)


def _image(
    config_type: str, config: bytes, layers: Sequence[dict[str, Any]], blobs: Sequence[bytes], **more: object
) -> Artifact:
    described = _described(config_type, config)
    document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": layers, **more}
    return Artifact(json.dumps(document).encode(), (config, *blobs))


def _described(media_type: str, body: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest_of(body), "size": len(body)}
