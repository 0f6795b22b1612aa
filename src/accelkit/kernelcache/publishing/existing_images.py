"""Finds what a registry has already: images by tag, and what is attached to them."""

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

# Of one image with its members; an index may name indexes, and so on.
MAX_MANIFESTS: Final = 1024


async def find_digest(client: RegistryClient, reference: Reference) -> str | None:
    """Return the digest that a tag leads to; None where there is no such image.

    Raises:
        RegistryError: the registry cannot be asked, so that nothing is known.
    """
    raw = await _find_manifest(client, reference)
    return raw.digest if raw is not None else None


async def list_members(client: RegistryClient, image: Reference) -> list[str]:
    """Return the digests of an image and, of an index, of all that it names, each once.

    Raises:
        CacheError: one of them is no manifest, or there are too many.
        RegistryError: one of them cannot be read.
    """
    found: dict[str, None] = {}
    waiting = [image.require_digest()]
    while waiting:
        digest = waiting.pop()
        if digest in found:
            continue
        found[digest] = None
        if len(found) > MAX_MANIFESTS:
            raise CacheError(f"{image} has more than {MAX_MANIFESTS} manifests")
        document = (await client.read_manifest(image.with_digest(digest))).decode()
        waiting += [each.digest for each in document.manifests] if isinstance(document, Index) else []
    return list(found)


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
