"""Signatures as cosign 2 makes them: a payload, and what vouches for it in annotations."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from private_sigstore.authority import Signer
from private_sigstore.bundles import edited
from private_sigstore.certificates import pem
from private_sigstore.keys import LogIdentity, b64
from private_sigstore.rekor import hashedrekord_body, logged

__all__ = ["BUNDLE_ANNOTATION", "SIGNATURE_ANNOTATION", "SimpleSigning", "simple_signing"]

SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature"
BUNDLE_ANNOTATION = "dev.sigstore.cosign/bundle"
CERTIFICATE_ANNOTATION = "dev.sigstore.cosign/certificate"
CHAIN_ANNOTATION = "dev.sigstore.cosign/chain"
TIMESTAMP_ANNOTATION = "dev.sigstore.cosign/rfc3161timestamp"


class SimpleSigning(NamedTuple):
    """The bytes of a layer of a `.sig` image, and the annotations of the layer."""

    payload: bytes
    annotations: dict[str, str]

    @property
    def log_body(self) -> bytes:
        """The body of the log entry, to be given to another signature."""
        return base64.b64decode(json.loads(self.annotations[BUNDLE_ANNOTATION])["Payload"]["body"])

    def annotated(self, **annotations: str | None) -> SimpleSigning:
        """The same with other annotations; give them as a mapping with `**`; None leaves one out."""
        changed = {**self.annotations, **annotations}
        return SimpleSigning(self.payload, {name: value for name, value in changed.items() if value is not None})

    def edited_log(self, change: Callable[[Any], object]) -> SimpleSigning:
        """The same after `change` was called with the document of what the log said."""
        document = edited(self.annotations[BUNDLE_ANNOTATION].encode(), change).decode()
        return self.annotated(**{BUNDLE_ANNOTATION: document})


def simple_signing(
    signer: Signer,
    digest: str,
    *,
    reference: str = "registry.private.test/team/app",
    optional: Mapping[str, str] | None = None,
    claim_type: str = "cosign container image signature",
    payload: bytes | None = None,
    tlog: bool = True,
    rekor: LogIdentity | None = None,
    integrated_time: datetime | None = None,
    body: bytes | None = None,
    stamps: Callable[[bytes], Sequence[bytes]] | None = None,
) -> SimpleSigning:
    """Sign an image's digest.

    Entries of a log for ed25519 keys are as no verifier takes them: Rekor wants another variant of that signature.

    Args:
        signer: who signs; certificate and chain are added where it has them.
        digest: `sha256:` and 64 hexadecimal digits.
        reference: the repository that the payload names.
        optional: the signer's own annotations.
        claim_type: what the payload says it is.
        payload: signed as it is, instead of a payload made of the above.
        tlog: whether the log has an entry.
        rekor: the log, instead of the signer's own.
        integrated_time: when the log says it took the entry, instead of the signer's time.
        body: what the log has, instead of an entry for this payload.
        stamps: the one answer of a timestamp authority that the format holds; called with the signature.
    """
    if payload is None:
        identity, image = {"docker-reference": reference}, {"docker-manifest-digest": digest}
        claim = {"identity": identity, "image": image, "type": claim_type}
        document = {"critical": claim, "optional": None if optional is None else dict(optional)}
        payload = json.dumps(document, separators=(",", ":")).encode()
    signature = signer.key.sign(payload)
    annotations = {SIGNATURE_ANNOTATION: b64(signature)}
    if signer.certificate is not None:
        annotations[CERTIFICATE_ANNOTATION] = pem(signer.certificate)
        annotations[CHAIN_ANNOTATION] = pem(*signer.chain)
    if stamps is not None:
        (answer,) = stamps(signature)
        annotations[TIMESTAMP_ANNOTATION] = json.dumps({"SignedRFC3161Timestamp": b64(answer)})
    if tlog:
        body = body or hashedrekord_body(payload, signature, signer.verifier_pem)
        entry = logged(rekor or signer.rekor, body, at=integrated_time or signer.at)
        annotations[BUNDLE_ANNOTATION] = json.dumps(entry.as_annotation())
    return SimpleSigning(payload, annotations)
