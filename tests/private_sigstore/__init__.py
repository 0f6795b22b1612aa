"""A private Sigstore: signatures of any identity over any digest, right ones and each kind of wrong one.

    sigstore = PrivateSigstore.new()
    signer = sigstore.identity("https://github.com/acme/ci/.github/workflows/build.yml@refs/heads/main")
    bundle = bundle_v3(signer, digest)                      # as cosign 3 signs
    payload, annotations = simple_signing(signer, digest)   # as cosign 2 signs
    Path("trusted_root.json").write_text(sigstore.trusted_root_json)

A plain key is `sigstore.key("rsa")`; one certified by an authority that is no Fulcio is
`sigstore.identity("ci@acme.test", issuer=None, sct=False, authority=CertificateAuthority.new("acme", around=MOMENT))`.
A timestamp authority is `TimestampAuthority.new("acme", around=MOMENT)`; a root made by `trusted_root` trusts it, and
`stamps=lambda signature: [authority.stamp(signature, at=…)]` adds what it says to a signature.
What is wrong with a signature is said by a parameter (`rekor=LogIdentity()` is a log nobody knows,
`rekor=sigstore.rekor.impostor()` one that lies about who it is, `sct=False`, `integrated_time=…`,
`body=log_body(other)`) or by `edited` and `edited_entry` afterwards.
"""

from private_sigstore.artifacts import (
    bundle_referrer,
    example_image,
    fallback_index,
    fallback_tag,
    signature_image,
    signature_tag,
)
from private_sigstore.authority import GITHUB, MOMENT, PrivateSigstore, Signer, trusted_root
from private_sigstore.bundles import (
    BUNDLE,
    BUNDLE_V0_2,
    SIGN_PREDICATE,
    bundle_v3,
    edited,
    edited_entry,
    log_body,
    message_signature_bundle,
)
from private_sigstore.certificates import CertificateAuthority, pem
from private_sigstore.keys import Key, LogIdentity
from private_sigstore.simple_signing import BUNDLE_ANNOTATION, SIGNATURE_ANNOTATION, SimpleSigning, simple_signing
from private_sigstore.timestamps import TimestampAuthority

__all__ = [
    "BUNDLE",
    "BUNDLE_ANNOTATION",
    "BUNDLE_V0_2",
    "GITHUB",
    "MOMENT",
    "SIGNATURE_ANNOTATION",
    "SIGN_PREDICATE",
    "CertificateAuthority",
    "Key",
    "LogIdentity",
    "PrivateSigstore",
    "Signer",
    "SimpleSigning",
    "TimestampAuthority",
    "bundle_referrer",
    "bundle_v3",
    "edited",
    "edited_entry",
    "example_image",
    "fallback_index",
    "fallback_tag",
    "log_body",
    "message_signature_bundle",
    "pem",
    "signature_image",
    "signature_tag",
    "simple_signing",
    "trusted_root",
]
