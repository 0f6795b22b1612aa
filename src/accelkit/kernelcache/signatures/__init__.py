"""Signatures of images: who may sign what, and whether one of them did.

The checks are our own because sigstore's library for Python verifies its own certificates in bundles only: no images of
cosign 2, no plain keys and no private authorities.
"""

from accelkit.kernelcache.signatures.findings import Failure, RejectionReason, Signature, UnverifiedError
from accelkit.kernelcache.signatures.image import Verification, verify_image
from accelkit.kernelcache.signatures.policy import SignerPolicies, load_policies

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
