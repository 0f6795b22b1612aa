"""Finds what a registry has already: images by tag, and what is attached to them."""

from __future__ import annotations

from accelkit.errors import RegistryError
from accelkit.kernelcache.oci.documents import Manifest
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.registry import RawManifest, RegistryClient
from accelkit.kernelcache.signatures.bundles import (
    BUNDLE_TYPE_PREFIX,
    PREDICATE_ANNOTATION,
    SIGN_PREDICATE,
    may_be_bundle,
)
from accelkit.kernelcache.signatures.simple_signing import build_signature_tag


async def find_digest(client: RegistryClient, reference: Reference) -> str | None:
    """Return the digest that a tag leads to; None where there is no such image.

    Raises:
        RegistryError: the registry cannot be asked, so that nothing is known.
    """
    raw = await _find_manifest(client, reference)
    return raw.digest if raw is not None else None


async def list_attachments(client: RegistryClient, image: Reference) -> dict[str, str]:
    """List what cosign attached to an image: its signature image of version 2, and the bundles that refer to it.

    Nothing of it is verified.

    Args:
        client: an open one.
        image: by digest.

    Returns:
        By digest, the predicate that it says it has: that of a signature, or that of some attestation.

    Raises:
        CacheError: something that refers to the image is no manifest.
        RegistryError: the registry cannot be asked.
    """
    found = {}
    raw = await _find_manifest(client, image.with_tag(build_signature_tag(image.require_digest())))
    if raw is not None:
        found[raw.digest] = SIGN_PREDICATE
    listed = await client.list_referrers(image)
    if listed.problems:
        raise listed.problems[0]
    for each in listed.descriptors:
        if not may_be_bundle(each):
            continue
        raw = await _find_manifest(client, image.with_digest(each.digest))
        document = raw.decode() if raw is not None else None
        if isinstance(document, Manifest) and document.artifact.startswith(BUNDLE_TYPE_PREFIX):
            found[each.digest] = document.annotations.get(PREDICATE_ANNOTATION, SIGN_PREDICATE)
    return found


async def has_signature(client: RegistryClient, image: Reference) -> bool:
    """Whether anybody signed an image, however well. Raises as `list_attachments`."""
    return SIGN_PREDICATE in (await list_attachments(client, image)).values()


async def _find_manifest(client: RegistryClient, reference: Reference) -> RawManifest | None:
    try:
        return await client.read_manifest(reference)
    except RegistryError as exc:
        if exc.missing:
            return None
        raise
