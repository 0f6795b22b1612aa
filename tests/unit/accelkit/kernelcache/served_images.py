"""Images of caches in a registry of this process, made by hand, and the orders to extract them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hand_made_archives import GZIP, archive, file, packed
from private_sigstore import PrivateSigstore, Signer, bundle_referrer, bundle_v3, signature_image, simple_signing
from registries.artifact import Artifact
from registries.hostile import HostileRegistry
from registries.memory import INDEX, MANIFEST, digest_of

from accelkit.errors import CacheError
from accelkit.kernelcache.extraction import ExtractionRequest, ExtractionResult, Limits, extract_image
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.registry import RegistryClient
from accelkit.kernelcache.registry.settings import RegistrySettings
from accelkit.kernelcache.signatures import SignerPolicies
from accelkit.kernelcache.signatures.signer_policy import load_policies

CONFIG = "application/vnd.oci.image.config.v1+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
REPOSITORY = "team/app"
TARGET = {"backend": "hip", "arch": "gfx90a", "warp_size": 64}
# As MCV labels a cache for one kind of card; without a size, so that archives may hold what they like.
LABELS = {"cache.triton.image/summary": json.dumps({"targets": [TARGET]}), "cache.triton.image/entry-count": "1"}
HELLO = archive(file("io.triton.cache/K/k.json", b"{}"))

Layer = tuple[bytes, str]


def image_of(
    layers: Sequence[Layer],
    labels: Mapping[str, str] | None = None,
    *,
    sizes: Sequence[int] | None = None,
    media_type: str = MANIFEST,
    architecture: str = "amd64",
) -> Artifact:
    """An image of these layers; `sizes` are what the manifest says of them, where it lies."""
    labelled = {"Labels": dict(LABELS if labels is None else labels)}
    config = json.dumps({"architecture": architecture, "os": "linux", "config": labelled}).encode()
    announced = sizes or [len(body) for body, _ in layers]
    document = {
        "schemaVersion": 2,
        "mediaType": media_type,
        "config": {"mediaType": CONFIG, "digest": digest_of(config), "size": len(config)},
        "layers": [
            {"mediaType": kind, "digest": digest_of(body), "size": size}
            for (body, kind), size in zip(layers, announced, strict=True)
        ],
    }
    return Artifact(json.dumps(document).encode(), (config, *(body for body, _ in layers)), media_type)


def index_of(*members: tuple[Artifact, Mapping[str, str] | None]) -> Artifact:
    """An index of images, each with the platform it is for."""
    listed = [
        image.descriptor | ({"platform": dict(platform)} if platform is not None else {}) for image, platform in members
    ]
    document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": listed}
    return Artifact(json.dumps(document).encode(), (), INDEX)


def put(registry: HostileRegistry, artifact: Artifact, tag: str | None = "v1") -> Reference:
    """Keep an image, and return its name with the digest."""
    for blob in artifact.blobs:
        registry.put_blob(REPOSITORY, blob)
    digest = registry.put_manifest(REPOSITORY, tag, artifact.manifest, artifact.media_type)
    return Reference(registry.host, REPOSITORY, "", digest)


def put_layers(
    registry: HostileRegistry, layers: Iterable[bytes], media_type: str = GZIP, labels: Mapping[str, str] | None = None
) -> Reference:
    """Keep an image of these archives, and return its name with the digest."""
    return put(registry, image_of([(packed(layer, media_type), media_type) for layer in layers], labels))


def client_of(registry: HostileRegistry) -> RegistryClient:
    return RegistryClient(RegistrySettings(plain_http=frozenset({registry.host})))


def unsigned(image: Reference, base: Path, **changes: Any) -> ExtractionRequest:
    """An order by somebody who said that no signature is wanted."""
    return ExtractionRequest(image=image, base=base, policies=None, **changes)


async def extract(registry: HostileRegistry, order: ExtractionRequest) -> ExtractionResult:
    async with client_of(registry) as client:
        return await extract_image(client, order)


# So small that attacks on it are.
SMALL = Limits(total_bytes=1 << 20, file_bytes=1 << 19, files=20)


async def extract_layer(
    registry: HostileRegistry, layer: bytes, media_type: str, base: Path, **changes: Any
) -> ExtractionResult:
    image = put(registry, image_of([(layer, media_type)], changes.pop("labels", None)))
    return await extract(registry, unsigned(image, base, **{"limits": SMALL, **changes}))


async def refused(
    registry: HostileRegistry, layer: bytes, media_type: str, base: Path, why: str, **changes: Any
) -> None:
    with pytest.raises(CacheError) as caught:
        await extract_layer(registry, layer, media_type, base, **changes)
    assert why in caught.value.message
    assert caught.value.message.isprintable()
    assert len(caught.value.message) < 1000
    assert visible(base) == []


def sign_v2(registry: HostileRegistry, signer: Signer, digest: str) -> None:
    put(registry, signature_image([simple_signing(signer, digest)]), f"{digest.replace(':', '-')}.sig")


def sign_v3(registry: HostileRegistry, signer: Signer, image: Artifact) -> Artifact:
    referrer = bundle_referrer(bundle_v3(signer, image.digest), image)
    put(registry, referrer, None)
    return referrer


def policies_of(
    sigstore: PrivateSigstore, folder: Path, *, subject: str, name: str = "acme", images: Sequence[str] = ("**",)
) -> SignerPolicies:
    """A policy that lets one subject sign everything, or some images."""
    folder.mkdir(exist_ok=True)
    root = folder / "trusted_root.json"
    root.write_text(sigstore.trusted_root_json)
    document = {
        "apiVersion": "accelkit.io/v1alpha1",
        "kind": "SignerPolicy",
        "metadata": {"name": name},
        "spec": {
            "images": list(images),
            "signers": [{"keyless": {"issuer": "https://token.actions.githubusercontent.com", "subject": subject}}],
        },
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(document))
    return load_policies(path, root)


def visible(base: Path) -> list[str]:
    """What lies in the base folder beside locks."""
    return sorted(each.name for each in base.iterdir() if not each.name.endswith(".lock")) if base.exists() else []


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
