"""Byte-for-byte copy of an image and its signatures to another registry, so that the signatures remain valid."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from accelkit.errors import CacheError, RegistryError, raise_first
from accelkit.kernelcache.oci.documents import Descriptor, Index, Manifest
from accelkit.kernelcache.oci.reference import Reference
from accelkit.kernelcache.publishing.existing_images import MAX_MANIFESTS
from accelkit.kernelcache.registry import RawManifest, RegistryClient
from accelkit.kernelcache.signatures.bundles import BUNDLE_TYPE_PREFIX, may_be_bundle
from accelkit.kernelcache.signatures.simple_signing import build_signature_tag

_PARALLEL_BLOBS = 4


@dataclass
class CopyResult:
    """The result of a copy.

    Attributes:
        digest: the digest of the image, which is the same in the source and target registries.
        uploaded_bytes: the number of bytes sent, excluding blobs that already existed or were mounted from another
            repository.
        manifests: the number of manifests written, including the manifests of signatures.
        signatures: the number of copied signature images and bundles.
    """

    digest: str
    uploaded_bytes: int = 0
    manifests: int = 0
    signatures: int = 0


async def copy_image(
    source_client: RegistryClient,
    source: Reference,
    client: RegistryClient,
    target: Reference,
    *,
    signatures: bool = True,
) -> CopyResult:
    """Copy an image (or, for an index, all images in it) and the signatures of each image.

    Args:
        source_client: an open client for the source registry.
        source: the image, by tag or digest.
        client: an open client for the target registry; may be the same as `source_client`.
        target: the target repository and tag. Without a tag, the image is written under its digest. If a digest is
            specified, it must match the image.
        signatures: whether to copy the signatures.

    Raises:
        RegistryError: a registry rejected a request, or a request failed.
        CacheError: the image or the list of its signatures cannot be read, or the target specifies a different digest.
    """
    raw = await source_client.read_manifest(source)
    if target.digest not in {None, raw.digest}:
        raise CacheError(
            f"{source} has the digest {raw.digest}, so it cannot be written as {target}", next_step="use a tag instead"
        )
    copying = _Copying(source_client, source, client, target, CopyResult(raw.digest))
    images = await copying.copy_manifest(raw)
    for digest in images if signatures else ():
        await copying.copy_signatures(source.with_digest(digest), digest)
    if target.tag:
        # The tag is written last, so that users of the tag always find the signatures.
        await copying.write(raw, target.tag)
    return copying.result


@dataclass
class _Copying:
    source_client: RegistryClient
    source: Reference
    client: RegistryClient
    target: Reference
    result: CopyResult
    _begun: int = 0

    async def copy_manifest(self, raw: RawManifest, tag: str | None = None) -> list[str]:
        """Copy a manifest after the objects that it refers to, so that the target never has an incomplete image.

        Returns:
            The digests of the manifest and of all manifests that it refers to, without duplicates.
        """
        self._begun += 1
        if self._begun > MAX_MANIFESTS:
            raise CacheError(f"{self.source} has more than {MAX_MANIFESTS} manifests")
        document, digests = raw.decode(), [raw.digest]
        if isinstance(document, Index):
            for member in document.manifests:
                member_manifest = await self.source_client.read_manifest(self.source.with_digest(member.digest))
                digests += await self.copy_manifest(member_manifest)
        else:
            await self._copy_blobs(document)
        await self.write(raw, tag)
        self.result.manifests += 1
        return list(dict.fromkeys(digests))

    async def write(self, raw: RawManifest, tag: str | None) -> None:
        """Write a manifest under a tag, or under its digest if there is no tag. Its blobs and manifests must exist."""
        document = raw.decode()
        place = replace(self.target, tag=tag, digest=raw.digest if tag is None else None)
        media_type = document.media_type or raw.media_type
        await self.client.uploads.push_manifest(place, raw.content, media_type)

    async def copy_signatures(self, image: Reference, digest: str) -> None:
        """Copy the signature image that cosign 2 created, and the bundles that refer to the image."""
        tag = build_signature_tag(digest)
        try:
            raw = await self.source_client.read_manifest(image.with_tag(tag))
        except RegistryError as exc:
            if not exc.missing:
                raise
        else:
            await self.copy_manifest(raw, tag)
            self.result.signatures += 1
        listed = await self.source_client.list_referrers(image)
        if listed.problems:
            problems = "; ".join(each.message for each in listed.problems)
            raise CacheError(
                f"the image was copied, but its signatures cannot be listed: {problems}",
                next_step="try again, or copy the image without signatures and sign the copy",
            )
        for referrer in listed.descriptors:
            if not may_be_bundle(referrer):
                continue
            raw = await self.source_client.read_manifest(image.with_digest(referrer.digest))
            document = raw.decode()
            if isinstance(document, Manifest) and document.artifact.startswith(BUNDLE_TYPE_PREFIX):
                await self.copy_manifest(raw)
                self.result.signatures += 1

    async def _copy_blobs(self, document: Manifest) -> None:
        slots = asyncio.Semaphore(_PARALLEL_BLOBS)
        same_registry = self.source.registry == self.target.registry
        mount_from = self.source.repository if same_registry else None

        async def copy_blob(blob: Descriptor) -> None:
            async with slots:
                sent = await self.client.uploads.push_blob(
                    self.target, blob, lambda: self.source_client.stream_blob(self.source, blob), mount_from=mount_from
                )
            self.result.uploaded_bytes += blob.size if sent else 0

        with raise_first(Exception):
            async with asyncio.TaskGroup() as group:
                for blob in {each.digest: each for each in (document.config, *document.layers)}.values():
                    group.create_task(copy_blob(blob))
