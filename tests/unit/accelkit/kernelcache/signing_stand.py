"""An image in a registry, what is attached to it, a policy file, and the verdict: the ground of the signature tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from private_sigstore import (
    GITHUB,
    MOMENT,
    PrivateSigstore,
    Signer,
    bundle_referrer,
    bundle_v3,
    edited,
    example_image,
    signature_image,
    signature_tag,
    simple_signing,
)
from registries.artifact import Artifact
from registries.hostile import HostileRegistry
from registries.misbehaviour import paged_referrers

from accelkit.kernelcache.oci.reference import parse_reference
from accelkit.kernelcache.registry import Login, RegistryClient, RegistryCredentials, RegistrySettings
from accelkit.kernelcache.signatures import RejectionReason, UnverifiedError, Verification, load_policies, verify_image

IDENTITY = "https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main"
REPOSITORY = "team/app"
IMAGE = example_image()
OTHER = example_image(b"another layer")
SIGSTORE = PrivateSigstore.new()
SIGNER = SIGSTORE.identity(IDENTITY)
FORMATS = ["cosign-v2", "cosign-v3"]
# Long after every certificate has expired, so that only what is proven about the time can help.
LATER = MOMENT + timedelta(days=365)


def keyless(**more: str) -> dict[str, Any]:
    """A signer of a policy: our identity, as GitHub vouches for it, unless told otherwise."""
    names = {"issuer": GITHUB, "subject": IDENTITY} | more
    if "subjectPattern" in more:
        del names["subject"]
    return {"name": "ci", "keyless": names}


def by_key(*signers: Signer) -> dict[str, Any]:
    """A signer of a policy: one of these keys, with or without a log."""
    pem = "".join(each.key.public_pem.decode() for each in signers)
    return {"name": "release", "key": {"data": pem}, "transparencyLog": "notRequired"}


def without_log(signer: Mapping[str, Any]) -> dict[str, Any]:
    return {**signer, "transparencyLog": "notRequired"}


def policy(*signers: Mapping[str, Any], images: Sequence[str] = ("**",), name: str = "acme", **spec: Any) -> str:
    """A policy document; JSON is YAML."""
    document = {
        "apiVersion": "accelkit.io/v1alpha1",
        "kind": "SignerPolicy",
        "metadata": {"name": name},
        "spec": {"images": list(images), "signers": list(signers), **spec},
    }
    return json.dumps(document)


def policy_file(folder: Path, *documents: str) -> Path:
    path = folder / "policy.yaml"
    path.write_text("\n---\n".join(documents))
    return path


class SigningStand:
    """A registry with the image `team/app:v1`.

    Args:
        registry: a running one.
        folder: for the policy and the trusted root.
    """

    def __init__(self, registry: HostileRegistry, folder: Path) -> None:
        self.registry = registry
        self.folder = folder
        self.root = folder / "trusted_root.json"
        self.root.write_text(SIGSTORE.trusted_root_json)
        self.login: Login | None = None
        self.plain_http = {registry.host}
        self.mirrors: tuple[str, ...] = ()
        self.push(IMAGE, tag="v1")

    def push(self, artifact: Artifact, *, tag: str | None = None) -> Artifact:
        for blob in artifact.blobs:
            self.registry.put_blob(REPOSITORY, blob)
        self.registry.put_manifest(REPOSITORY, tag, artifact.manifest, artifact.media_type)
        return artifact

    def attach(self, form: str, signer: Signer, digest: str = IMAGE.digest, **how: Any) -> None:
        """Sign a digest in a format, and attach the signature to the image."""
        if form == "cosign-v2":
            self.push(signature_image([simple_signing(signer, digest, **how)]), tag=signature_tag(IMAGE.digest))
        else:
            self.attach_bundle(bundle_v3(signer, digest, **how))

    def attach_bundle(self, bundle: bytes, subject: Artifact = IMAGE) -> Artifact:
        return self.push(bundle_referrer(bundle, subject))

    def list_referrers(self, *referrers: Artifact, page: int = 100) -> None:
        """Answer these to whoever asks what refers to the image, in pages."""
        handler = paged_referrers([each.descriptor for each in referrers], page=page)
        self.registry.on("GET", f"/v2/{REPOSITORY}/referrers/.*", handler)

    def trust(self, change: Any) -> None:
        """Change the document of the trusted root."""
        self.root.write_bytes(edited(self.root.read_bytes(), change))

    async def verify(self, *documents: str, version: str = ":v1", **how: Any) -> Verification:
        """Verify the image by policies: those given, else one for our identity."""
        path = policy_file(self.folder, *(documents or (policy(keyless()),)))
        reference = parse_reference(f"{self.registry.host}/{REPOSITORY}{version}")
        logins = {self.registry.host: self.login} if self.login else {}
        mirrors = {self.registry.host: self.mirrors}
        settings = RegistrySettings(
            RegistryCredentials(logins), plain_http=frozenset(self.plain_http), mirrors=mirrors, attempts=1
        )
        arguments = {"clock": lambda: LATER} | how
        async with RegistryClient(settings) as client:
            return await verify_image(client, reference, load_policies(path, self.root), **arguments)

    async def refusal(self, *documents: str, **how: Any) -> UnverifiedError:
        """What is said where the image is refused, as it must be."""
        with pytest.raises(UnverifiedError) as caught:
            await self.verify(*documents, **how)
        assert caught.value.failures
        return caught.value

    async def reason(self, *documents: str, **how: Any) -> RejectionReason:
        return (await self.refusal(*documents, **how)).reason


@contextmanager
def signing_stand(folder: Path) -> Iterator[SigningStand]:
    """A stand with a registry of its own."""
    with HostileRegistry() as registry:
        yield SigningStand(registry, folder)


def at(seconds_after: float) -> datetime:
    """A moment, counted from when our signer signs."""
    return SIGNER.at + timedelta(seconds=seconds_after)
