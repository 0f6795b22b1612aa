"""Search for existing images by tag in a registry, and for the signatures that are attached to an image."""

from __future__ import annotations

from typing import Final

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.oci.documents import Index, Manifest
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.registry import RawManifest, RegistryClient
from accelkit.kernelcache.signatures.bundles import (
    BUNDLE_TYPE_PREFIX,
    PREDICATE_ANNOTATION,
    SIGN_PREDICATE,
    may_be_bundle,
)
from accelkit.kernelcache.signatures.simple_signing import build_signature_tag

# The maximum number of manifests of one image, because indexes may be nested.
MAX_MANIFESTS: Final = 1024


async def find_digest(client: RegistryClient, reference: Reference) -> str | None:
    """Return the digest to which a tag points; None if the image does not exist.

    Raises:
        RegistryError: the request failed, so the result is unknown.
    """
    raw = await _find_manifest(client, reference)
    return raw.digest if raw is not None else None


async def list_members(client: RegistryClient, image: Reference) -> list[str]:
    """Return the digests of an image and, if it is an index, of all images in it, without duplicates.

    Raises:
        CacheError: a document is not a manifest, or there are too many manifests.
        RegistryError: a manifest cannot be read.
    """
    found: dict[str, None] = {}
    pending = [image.require_digest()]
    while pending:
        digest = pending.pop()
        if digest in found:
            continue
        found[digest] = None
        if len(found) > MAX_MANIFESTS:
            raise CacheError(f"{image} has more than {MAX_MANIFESTS} manifests")
        document = (await client.read_manifest(image.with_digest(digest))).decode()
        pending += [each.digest for each in document.manifests] if isinstance(document, Index) else []
    return list(found)


async def list_attachments(client: RegistryClient, image: Reference) -> dict[str, str]:
    """List the objects that cosign attached to an image: the signature image of version 2, and bundles.

    The attachments are not verified.

    Args:
        client: an open client.
        image: the image reference with a digest.

    Returns:
        The predicate type of each attachment, keyed by digest. The type identifies a signature or an attestation.

    Raises:
        CacheError: a referrer of the image is not a manifest.
        RegistryError: the request fails.
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
    """Return whether an image has a signature, valid or not. Raises the same errors as `list_attachments`."""
    return SIGN_PREDICATE in (await list_attachments(client, image)).values()


async def _find_manifest(client: RegistryClient, reference: Reference) -> RawManifest | None:
    try:
        return await client.read_manifest(reference)
    except RegistryError as exc:
        if exc.missing:
            return None
        raise
