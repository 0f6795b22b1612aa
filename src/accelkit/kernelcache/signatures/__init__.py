"""Signatures of images, verified against signer policies.

accelkit verifies them itself, because sigstore's library for Python verifies only Sigstore certificates in bundles. It
does not verify signature images of cosign 2, plain keys or private authorities.
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
