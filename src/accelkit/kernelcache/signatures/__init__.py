"""Signatures of images, verified against signer policies.

The Python library `sigstore` is not sufficient, because it verifies only Sigstore certificates in bundles. It does not
support signature images from cosign 2, public keys without certificates, or private authorities.
"""

from accelkit.kernelcache.signatures.findings import Failure, RejectionReason, Signature, UnverifiedError
from accelkit.kernelcache.signatures.image import Verification, verify_image
from accelkit.kernelcache.signatures.signer_policy import SignerPolicies, load_policies

__all__ = [
    "Failure",
    "RejectionReason",
    "Signature",
    "SignerPolicies",
    "UnverifiedError",
    "Verification",
    "load_policies",
    "verify_image",
]
