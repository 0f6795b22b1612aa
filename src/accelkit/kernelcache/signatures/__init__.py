"""Signatures of images: who may sign what, and whether somebody of those did."""

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
