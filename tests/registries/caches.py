"""Kernel caches in a registry, signed by whom a test says, and the policy that knows them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from private_sigstore import (
    GITHUB,
    Signer,
    bundle_referrer,
    bundle_v3,
    fallback_index,
    fallback_tag,
    signature_image,
    signature_tag,
    simple_signing,
)
from registries.artifact import Artifact, push

from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.publishing.build import BuildOptions, build_image
from accelkit.kernelcache.registry import RegistryClient, RegistrySettings

__all__ = ["attest", "cache_folder", "publish", "sign", "write_policy"]


def cache_folder(folder: Path, *, kernel: str = "add_kernel", **more: object) -> Path:
    """Write what Triton leaves of one kernel for an H100; `more` goes into the kernel's metadata."""
    key = folder / "MCELTMXFCSPAMZYLZ3C3WPPYYVTVR4QOYNE52X3X6FIH7Z6N6X5A"
    key.mkdir(parents=True)
    metadata = {
        "hash": "6088b9b2e5149e06670bcec5bb3df8c56758f20ec349dd5f77f1507fe7cdf5fa",
        "target": {"backend": "cuda", "arch": 90, "warp_size": 32},
        "triton_version": "3.2.0",
        "name": kernel,
        **more,
    }
    (key / f"{kernel}.json").write_text(json.dumps(metadata))
    (key / f"{kernel}.cubin").write_bytes(b"\x7fELF" + kernel.encode() * 64)
    children = {name: f"/build/{key.name}/{name}" for name in (f"{kernel}.json", f"{kernel}.cubin")}
    (key / f"__grp__{kernel}.json").write_text(json.dumps({"child_paths": children}))
    return folder


def publish(host: str, folder: Path, repository: str = "team/cache", tag: str = "v1") -> Artifact:
    """Push the image of a cache folder to a registry without TLS; what has its digest is returned."""

    async def pushed() -> Artifact:
        async with RegistryClient(RegistrySettings(plain_http=frozenset({host}))) as client:
            reference = parse_reference(f"{host}/{repository}:{tag}")
            built = await build_image(folder, reference, BuildOptions(architecture="amd64"), client)
        return Artifact(built.manifest, media_type=built.media_type)

    return asyncio.run(pushed())


def sign(host: str, image: Artifact, signer: Signer, repository: str = "team/cache", *, version: int = 3) -> str:
    """Sign a pushed image as that cosign does, without a log for keys; the signature's digest is returned."""
    url, tlog = f"http://{host}", signer.certificate is not None
    if version == 2:
        signature = signature_image([simple_signing(signer, image.digest, tlog=tlog)])
        return push(url, repository, signature, tag=signature_tag(image.digest))
    bundle = bundle_referrer(bundle_v3(signer, image.digest, tlog=tlog), image)
    push(url, repository, bundle)
    # Found by either way of discovery, whatever the registry can.
    push(url, repository, fallback_index([bundle]), tag=fallback_tag(image.digest))
    return bundle.digest


def attest(host: str, image: Artifact, signer: Signer, repository: str = "team/cache") -> None:
    """Attach a bundle that says something about the image, and is no signature of it."""
    kind = "https://spdx.dev/Document"
    bundle = bundle_v3(signer, image.digest, predicate_type=kind, tlog=False)
    push(f"http://{host}", repository, bundle_referrer(bundle, image, predicate_type=kind))


def write_policy(folder: Path, host: str, signer: Signer | None = None, *, identity: str = "") -> Path:
    """Write a policy for all images of a registry: this key, or this identity by GitHub's issuer."""
    if signer is not None:
        who = {"name": "ci", "key": {"data": signer.key.public_pem.decode()}, "transparencyLog": "notRequired"}
    else:
        who = {"name": "ci", "keyless": {"issuer": GITHUB, "subject": identity}}
    document = {
        "apiVersion": "accelkit.io/v1alpha1",
        "kind": "SignerPolicy",
        "metadata": {"name": "acme"},
        "spec": {"images": [f"{host}/**"], "signers": [who]},
    }
    path = folder / "policy.yaml"
    path.write_text(json.dumps(document))
    return path
