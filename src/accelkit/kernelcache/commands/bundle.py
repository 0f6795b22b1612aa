"""`accelkit cache verify-bundle`: the client protocol of Sigstore's conformance suite."""

from __future__ import annotations

from pathlib import Path

import click

from accelkit.command_options import EXISTING_FILE
from accelkit.kernelcache.signatures.artifact import verify_artifact
from accelkit.kernelcache.signatures.keys import load_public_keys
from accelkit.kernelcache.signatures.signer_policy import Signer
from accelkit.kernelcache.signatures.text_patterns import TextMatch
from accelkit.kernelcache.signatures.trust import TrustRoot


@click.command("verify-bundle", short_help="Verify a Sigstore bundle of a file.")
@click.option("--bundle", required=True, type=EXISTING_FILE, help="Sigstore bundle, JSON.")
@click.option("--certificate-identity", help="Exact subject that the certificate must contain.")
@click.option("--certificate-oidc-issuer", help="Exact OIDC issuer that the certificate must contain.")
@click.option("--key", type=EXISTING_FILE, help="Public key in PEM format, instead of identity and issuer.")
@click.option(
    "--trusted-root", type=EXISTING_FILE, help="Trusted root, JSON (default: the root of the public instance)."
)
@click.option("--staging", is_flag=True, help="Trust Sigstore's staging instance instead of the public instance.")
@click.argument("file_or_digest")
def verify_bundle(
    *,
    bundle: Path,
    certificate_identity: str | None,
    certificate_oidc_issuer: str | None,
    key: Path | None,
    trusted_root: Path | None,
    file_or_digest: str,
    staging: bool,
) -> None:
    """Verify a Sigstore bundle of FILE_OR_DIGEST (a path, or the sha256:… digest of a file)."""
    keyless = bool(certificate_identity) and bool(certificate_oidc_issuer)
    if keyless == (key is not None) or bool(certificate_identity) != bool(certificate_oidc_issuer):
        raise click.UsageError("specify --certificate-identity and --certificate-oidc-issuer, or --key")
    if key is not None:
        signer = Signer("key", keys=load_public_keys(key.read_bytes(), str(key)))
    else:
        issuer, subject = TextMatch(certificate_oidc_issuer or ""), TextMatch(certificate_identity or "")
        signer = Signer("identity", issuer=issuer, subject=subject)
    verified = verify_artifact(bundle, file_or_digest, signer, TrustRoot(trusted_root, staging=staging))
    click.echo(f"Verified: signed by {verified.identity}")
