"""The private Sigstore is judged by those who had no hand in it: sigstore-python, and the real cosign."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID
from private_sigstore import (
    BUNDLE,
    BUNDLE_V0_2,
    GITHUB,
    MOMENT,
    SIGN_PREDICATE,
    CertificateAuthority,
    LogIdentity,
    PrivateSigstore,
    bundle_referrer,
    bundle_v3,
    edited,
    edited_entry,
    example_image,
    fallback_index,
    fallback_tag,
    log_body,
    message_signature_bundle,
    signature_image,
    signature_tag,
    simple_signing,
    trusted_root,
)
from registries.artifact import Artifact
from registries.real import RealRegistry
from sigstore.errors import Error
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier, policy

IDENTITY = "https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main"
IMAGE = example_image()
OTHER = example_image(b"another layer")
SIGSTORE = PrivateSigstore.new()
SIGNER = SIGSTORE.identity(IDENTITY)

_SECONDS = 60


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    path = tmp_path / "trusted_root.json"
    path.write_text(SIGSTORE.trusted_root_json)
    return path


@pytest.fixture
def verify(trusted: Path) -> Callable[..., bytes]:
    """sigstore-python's verdict on a bundle: the statement, or an error."""

    def verify(bundle: bytes, *, identity: str = IDENTITY, issuer: str = GITHUB) -> bytes:
        verifier = Verifier(trusted_root=TrustedRoot.from_file(str(trusted)))
        wanted = policy.Identity(identity=identity, issuer=issuer)
        return verifier.verify_dsse(Bundle.from_json(bundle), wanted)[1]

    return verify


@pytest.mark.parametrize("media_type", [BUNDLE, BUNDLE_V0_2])
def test_sigstore_python_accepts_a_bundle(verify, media_type):
    assert IMAGE.digest.removeprefix("sha256:").encode() in verify(
        bundle_v3(SIGNER, IMAGE.digest, media_type=media_type)
    )


def test_sigstore_python_accepts_email_identity(verify):
    bundle = bundle_v3(SIGSTORE.identity("ci@acme.test", issuer="https://idp.acme.test"), IMAGE.digest)
    assert verify(bundle, identity="ci@acme.test", issuer="https://idp.acme.test")


@pytest.mark.parametrize("wrong", [{"identity": f"{IDENTITY}-not"}, {"issuer": "https://idp.acme.test"}])
def test_sigstore_python_refuses_another_signer(verify, wrong):
    with pytest.raises(Error):
        verify(bundle_v3(SIGNER, IMAGE.digest), **wrong)


def _tampered(bundle: bytes) -> bytes:
    def change(document: dict) -> None:
        document["dsseEnvelope"]["payload"] = document["dsseEnvelope"]["payload"].swapcase()

    return edited(bundle, change)


# What is wrong, how it is made, and a part of what sigstore-python says to it.
FORGERIES = {
    "another authority": (
        lambda: bundle_v3(PrivateSigstore.new().identity(IDENTITY), IMAGE.digest),
        "signature does not match",
    ),
    "an unknown log": (lambda: bundle_v3(SIGNER, IMAGE.digest, rekor=LogIdentity()), "checkpoint: invalid signature"),
    "another key of the log": (
        lambda: bundle_v3(SIGNER, IMAGE.digest, rekor=SIGSTORE.rekor.impostor()),
        "checkpoint: invalid signature",
    ),
    "no log entry": (lambda: bundle_v3(SIGNER, IMAGE.digest, tlog=False), "tlogEntries"),
    "the log entry of another bundle": (
        lambda: bundle_v3(SIGNER, IMAGE.digest, body=log_body(bundle_v3(SIGNER, OTHER.digest))),
        "payload hash does not match",
    ),
    "a changed log entry": (
        lambda: edited_entry(bundle_v3(SIGNER, IMAGE.digest), lambda entry: entry.update(logIndex="8")),
        "SET: invalid inclusion promise",
    ),
    "no promise of the certificate log": (
        lambda: bundle_v3(SIGSTORE.identity(IDENTITY, sct=False), IMAGE.digest),
        "does not contain a signed certificate timestamp",
    ),
    "the promise of an unknown certificate log": (
        lambda: bundle_v3(SIGSTORE.identity(IDENTITY, ct_log=LogIdentity()), IMAGE.digest),
        "SCT verify failed",
    ),
    "a forged promise": (
        lambda: bundle_v3(SIGSTORE.identity(IDENTITY, ct_log=SIGSTORE.ct_log.impostor()), IMAGE.digest),
        "SCT verify failed",
    ),
    "a time after the certificate's": (
        lambda: bundle_v3(SIGNER, IMAGE.digest, integrated_time=SIGNER.at + timedelta(hours=1)),
        "not valid at validation time",
    ),
    "a time before the certificate's": (
        lambda: bundle_v3(SIGNER, IMAGE.digest, integrated_time=SIGNER.at - timedelta(hours=1)),
        "not valid at validation time",
    ),
    "a certificate for servers": (
        lambda: bundle_v3(SIGSTORE.identity(IDENTITY, usage=ExtendedKeyUsageOID.SERVER_AUTH), IMAGE.digest),
        "code signing",
    ),
    "another key than the certificate's": (
        lambda: bundle_v3(replace(SIGNER, key=SIGSTORE.identity(IDENTITY).key), IMAGE.digest),
        "DSSE: invalid signature",
    ),
    "two signatures": (lambda: bundle_v3(SIGNER, IMAGE.digest, signatures=2), "exactly one signature"),
    "a signature of the manifest, without a statement": (
        lambda: message_signature_bundle(SIGNER, IMAGE.manifest),
        "without a DSSE envelope",
    ),
    "a changed statement": (lambda: _tampered(bundle_v3(SIGNER, IMAGE.digest)), "DSSE: invalid signature"),
}


@pytest.mark.parametrize(("forgery", "reason"), FORGERIES.values(), ids=FORGERIES)
def test_sigstore_python_refuses_each_forgery_with_expected_reason(verify, forgery, reason):
    with pytest.raises(Error, match=reason):
        verify(forgery())


def test_sigstore_python_accepts_message_signature_of_manifest(trusted):
    verifier = Verifier(trusted_root=TrustedRoot.from_file(str(trusted)))
    bundle = Bundle.from_json(message_signature_bundle(SIGNER, IMAGE.manifest))
    verifier.verify_artifact(IMAGE.manifest, bundle, policy.Identity(identity=IDENTITY, issuer=GITHUB))


@pytest.fixture
def cosign(tmp_path: Path) -> Callable[..., str]:
    """Runs cosign 3; returns an empty string where it accepts, else what it says."""
    executable = shutil.which("cosign3")
    if executable is None:
        pytest.skip("cosign3 is not on PATH")

    def run(*arguments: str | Path) -> str:
        environ = {**os.environ, "HOME": str(tmp_path), "DOCKER_CONFIG": str(tmp_path)}
        done = subprocess.run(
            [executable, *arguments], env=environ, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        return "" if done.returncode == 0 else done.stderr

    return run


def _by(identity: str, issuer: str = GITHUB) -> list[str]:
    return ["--certificate-identity", identity, "--certificate-oidc-issuer", issuer]


def _signed(registry: RealRegistry, signature: Artifact, *, tag: str | None = None) -> str:
    """Push the image and its signature, by both ways of discovery where it has no tag; return the reference."""
    repository = registry.repository()
    registry.push(repository, IMAGE, tag="v1")
    registry.push(repository, signature, tag=tag)
    if tag is None:
        registry.push(repository, fallback_index([signature]), tag=fallback_tag(IMAGE.digest))
    return f"{registry.host}/{repository}@{IMAGE.digest}"


@pytest.mark.parametrize("media_type", [BUNDLE, BUNDLE_V0_2])
def test_cosign_accepts_bundle_only_for_its_signer(cosign, trusted, tmp_path, media_type):
    bundle = tmp_path / "bundle.json"
    bundle.write_bytes(bundle_v3(SIGNER, IMAGE.digest, media_type=media_type))
    digest = ["--digestAlg", "sha256", "--digest", IMAGE.digest.removeprefix("sha256:")]
    command = ["verify-blob-attestation", "--bundle", bundle, "--trusted-root", trusted, *digest]
    command += ["--type", SIGN_PREDICATE]
    assert cosign(*command, *_by(IDENTITY)) == ""
    assert "no matching" in cosign(*command, *_by(f"{IDENTITY}-not"))


def test_cosign_accepts_referrer_only_for_its_signer(cosign, trusted, registry):
    reference = _signed(registry, bundle_referrer(bundle_v3(SIGNER, IMAGE.digest), IMAGE))
    command = ["verify", "--trusted-root", trusted, reference]
    assert cosign(*command, *_by(IDENTITY)) == ""
    assert "no matching" in cosign(*command, *_by(f"{IDENTITY}-not"))


def test_cosign_accepts_signature_image_only_for_its_signer(cosign, trusted, registry):
    signature = signature_image([simple_signing(SIGNER, IMAGE.digest)])
    reference = _signed(registry, signature, tag=signature_tag(IMAGE.digest))
    command = ["verify", "--trusted-root", trusted, reference]
    assert cosign(*command, *_by(IDENTITY)) == ""
    assert "no matching" in cosign(*command, *_by(f"{IDENTITY}-not"))


@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
@pytest.mark.parametrize(("version", "tlog"), [(2, False), (2, True), (3, False), (3, True)])
def test_cosign_accepts_key_signature_only_for_its_key(cosign, trusted, referrers_registry, *, kind, version, tlog):
    signer, other = SIGSTORE.key(kind), SIGSTORE.key(kind)
    if version == 2:
        signature = signature_image([simple_signing(signer, IMAGE.digest, tlog=tlog)])
        reference = _signed(referrers_registry, signature, tag=signature_tag(IMAGE.digest))
    else:
        signature = bundle_referrer(bundle_v3(signer, IMAGE.digest, tlog=tlog), IMAGE)
        reference = _signed(referrers_registry, signature)
    told = ["--trusted-root", trusted, f"--insecure-ignore-tlog={str(not tlog).lower()}"]
    public = trusted.with_name("key.pub")
    for each, accepted in ((signer, True), (other, False)):
        public.write_bytes(each.key.public_pem)
        assert (cosign("verify", "--key", public, *told, reference) == "") == accepted


@pytest.mark.parametrize("version", [2, 3])
def test_cosign_accepts_certificate_only_for_its_authority(cosign, referrers_registry, tmp_path, version):
    now = datetime.now(UTC)
    authority, other = (CertificateAuthority.new(name, around=MOMENT) for name in ("acme", "other"))
    signer = SIGSTORE.identity(
        "ci@acme.test",
        issuer=None,
        sct=False,
        authority=authority,
        not_before=now - timedelta(days=1),
        not_after=now + timedelta(days=1),
    )
    if version == 2:
        signature = signature_image([simple_signing(signer, IMAGE.digest, tlog=False)])
        reference = _signed(referrers_registry, signature, tag=signature_tag(IMAGE.digest))
    else:
        signature = bundle_referrer(bundle_v3(signer, IMAGE.digest, tlog=False), IMAGE)
        reference = _signed(referrers_registry, signature)
    trusted = tmp_path / "authorities.json"
    told = ["--trusted-root", trusted, "--insecure-ignore-tlog", "--insecure-ignore-sct"]
    told += ["--certificate-identity", "ci@acme.test", "--certificate-oidc-issuer-regexp", ".*"]
    for each, accepted in ((authority, True), (other, False)):
        trusted.write_text(trusted_root(authorities=[each]))
        assert (cosign("verify", *told, reference) == "") == accepted


@pytest.mark.parametrize(
    "forged",
    [
        lambda: simple_signing(SIGNER, IMAGE.digest, rekor=SIGSTORE.rekor.impostor()),
        lambda: simple_signing(SIGNER, IMAGE.digest, body=simple_signing(SIGNER, OTHER.digest).log_body),
        lambda: simple_signing(SIGNER, IMAGE.digest, integrated_time=SIGNER.at + timedelta(hours=1)),
        lambda: simple_signing(SIGSTORE.identity(IDENTITY, sct=False), IMAGE.digest),
        lambda: simple_signing(SIGNER, OTHER.digest),
        lambda: simple_signing(SIGNER, IMAGE.digest).edited_log(lambda log: log["Payload"].update(logIndex=8)),
    ],
    ids=["forged promise", "another's entry", "late", "no certificate log", "another image", "edited entry"],
)
def test_cosign_refuses_forged_signature_images(cosign, trusted, referrers_registry, forged):
    reference = _signed(referrers_registry, signature_image([forged()]), tag=signature_tag(IMAGE.digest))
    assert cosign("verify", "--trusted-root", trusted, reference, *_by(IDENTITY)) != ""
