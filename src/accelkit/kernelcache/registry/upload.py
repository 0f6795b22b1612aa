"""Uploads of blobs, manifests and, for registries without the referrers API, the list of referrers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import urlencode

import msgspec

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.oci.documents import (
    MAX_MANIFEST_BYTES,
    OCI_INDEX,
    Descriptor,
    Index,
    Manifest,
    decode_manifest,
)
from accelkit.kernelcache.oci.reference import Reference, compute_digest
from accelkit.kernelcache.registry.destinations import read_url
from accelkit.kernelcache.registry.exchange import Exchange
from accelkit.kernelcache.registry.settings import RegistryEndpoint, RegistrySettings

_PUSH = "pull,push"
_CREATED = 201
_ACCEPTED = 202


class Uploads:
    """Writer for the registry of an image reference. It never writes to mirrors.

    Args:
        exchange: an open exchange.
        settings: the registry settings.
    """

    def __init__(self, exchange: Exchange, settings: RegistrySettings) -> None:
        self._exchange = exchange
        self._settings = settings

    async def has_blob(self, reference: Reference, digest: str) -> bool:
        """Return whether the repository already has a blob.

        Raises:
            RegistryError: the request was rejected, or the registry was unreachable.
        """
        endpoint = self._settings.find_origin(reference)
        accepted = frozenset({200, 404})
        url = endpoint.build_url(f"blobs/{digest}")
        async with self._exchange.send(endpoint, "HEAD", url, actions=_PUSH, accepted=accepted) as response:
            return response.status == 200  # noqa: PLR2004 - HTTP's status for success

    async def push_blob(
        self,
        reference: Reference,
        blob: Descriptor,
        content: Callable[[], AsyncIterator[bytes]],
        *,
        mount_from: str | None = None,
    ) -> bool:
        """Write a blob unless it exists.

        Args:
            reference: the repository.
            blob: the digest and the size of the blob.
            content: a function that yields the bytes of the blob; it is called for each attempt.
            mount_from: another repository in the same registry that has the blob; None if there is no known repository.

        Returns:
            Whether bytes were sent.

        Raises:
            CacheError: `content` yielded more or fewer bytes than the descriptor specifies.
            RegistryError: the request was rejected, or the registry was unreachable in all attempts.
        """
        if await self.has_blob(reference, blob.digest):
            return False
        endpoint = self._settings.find_origin(reference)

        async def once() -> bool:
            # After an interrupted transfer, the upload is unusable, so each attempt begins a new upload.
            location = await self._begin(endpoint, blob, mount_from)
            if location is None:
                return False
            body = _BlobBody(blob, content)
            try:
                async with self._exchange.send(
                    endpoint,
                    "PUT",
                    location,
                    actions=_PUSH,
                    accepted=frozenset({_CREATED}),
                    headers={"Content-Type": "application/octet-stream", "Content-Length": str(blob.size)},
                    body=body.read_chunks,
                    body_bytes=blob.size,
                    attempts=1,
                ):
                    return True
            except RegistryError:
                if body.failure is not None:
                    raise body.failure from None
                raise

        return await self._exchange.retry(endpoint, once)

    async def _begin(self, endpoint: RegistryEndpoint, blob: Descriptor, mount_from: str | None) -> str | None:
        """Begin an upload, and return the URL for the blob; None if the registry mounted the existing blob."""
        query = "?" + urlencode({"mount": blob.digest, "from": mount_from}) if mount_from else ""
        start = endpoint.build_url("blobs/uploads/") + query
        accepted = frozenset({_CREATED, _ACCEPTED})
        async with self._exchange.send(
            endpoint, "POST", start, actions=_PUSH, accepted=accepted, headers={"Content-Length": "0"}, attempts=1
        ) as response:
            if response.status == _CREATED:
                return None
            location = response.headers.get("Location")
            if not location:
                raise RegistryError(f"{endpoint.registry} accepted an upload, but returned no URL for it")
            url = read_url(location, base=str(response.url), registry=endpoint.registry)
        return f"{url}{'&' if url.raw_query_string else '?'}{urlencode({'digest': blob.digest})}"

    async def push_manifest(self, reference: Reference, content: bytes, media_type: str) -> str:
        """Write a manifest under the tag of the reference, or under its digest if the reference has no tag.

        Returns:
            The digest of the manifest.

        Raises:
            CacheError: the reference has a different digest, or the content is not a manifest.
            RegistryError: the request was rejected, the registry was unreachable, or it stored the manifest under a
                different digest.
        """
        endpoint = self._settings.find_origin(reference)
        digest = compute_digest(content)
        document = decode_manifest(content, media_type)
        if reference.digest not in {None, digest}:
            raise CacheError(
                f"cannot write a manifest with the digest {digest} as {reference}", next_step="use a tag instead"
            )
        url = endpoint.build_url(f"manifests/{reference.tag or digest}")
        async with self._put(endpoint, url, content, media_type) as response:
            stored = response.headers.get("Docker-Content-Digest", digest)
            lists_referrers = "OCI-Subject" in response.headers
        if stored != digest:
            raise RegistryError(f"{endpoint.registry} stored {digest} as {stored[:71]!a}")
        if document.subject is not None and not lists_referrers:
            kind = document.artifact if isinstance(document, Manifest) else document.artifact_type
            entry = Descriptor(media_type, digest, len(content), artifact_type=kind, annotations=document.annotations)
            await self._list_under_tag(reference, document.subject.digest, entry)
        return digest

    def _put(self, endpoint: RegistryEndpoint, url: str, content: bytes, media_type: str):  # type: ignore[no-untyped-def] # noqa: ANN202 - the exchange's own context manager
        accepted = frozenset({_CREATED, 200})
        headers = {"Content-Type": media_type}
        return self._exchange.send(
            endpoint,
            "PUT",
            url,
            actions=_PUSH,
            accepted=accepted,
            headers=headers,
            body=lambda: content,
            body_bytes=len(content),
        )

    async def _list_under_tag(self, repository: Reference, subject: str, entry: Descriptor) -> None:
        """Add a referrer to the list under the fallback tag, which registries without the referrers API require."""
        endpoint = self._settings.find_origin(repository)
        url = endpoint.build_url(f"manifests/{subject.replace(':', '-')}")
        answer = await self._exchange.read(
            endpoint,
            url,
            limit=MAX_MANIFEST_BYTES,
            what=f"the list at {url}",
            actions=_PUSH,
            headers={"Accept": OCI_INDEX},
            accepted=frozenset({200, 404}),
        )
        listed: dict[str, Any] = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": []}
        if answer.status == 200:  # noqa: PLR2004 - HTTP's status for success
            document = decode_manifest(answer.content)
            if not isinstance(document, Index):
                raise CacheError(f"cannot add a signature to {url}, because it is not an index")
            if any(descriptor.digest == entry.digest for descriptor in document.manifests):
                return
            # Entries and unknown fields from other tools must be preserved.
            listed = msgspec.json.decode(answer.content)
        listed["manifests"] = [*(listed["manifests"] or ()), msgspec.to_builtins(entry)]
        async with self._put(endpoint, url, msgspec.json.encode(listed), OCI_INDEX):
            pass


class _BlobBody:
    """The body of an upload. It records an error in its source separately, because this is not a registry error."""

    def __init__(self, blob: Descriptor, content: Callable[[], AsyncIterator[bytes]]) -> None:
        self.failure: Exception | None = None
        self._blob = blob
        self._content = content

    async def read_chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._count():
                yield chunk
        except Exception as exc:
            self.failure = exc
            raise

    async def _count(self) -> AsyncIterator[bytes]:
        size, expected = 0, self._blob.size
        async for chunk in self._content():
            size += len(chunk)
            if size > expected:
                raise CacheError(f"{self._blob.digest} is longer than the {expected} bytes of its descriptor")
            yield chunk
        if size < expected:
            raise CacheError(f"{self._blob.digest} is shorter than the {expected} bytes of its descriptor")
