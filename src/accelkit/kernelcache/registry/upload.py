"""Uploads of blobs and manifests, and the list of referrers where a registry keeps none itself."""

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
    """Writes to the registry that a reference names, never to its mirrors.

    Args:
        exchange: an open one.
        settings: where registries are.
    """

    def __init__(self, exchange: Exchange, settings: RegistrySettings) -> None:
        self._exchange = exchange
        self._settings = settings

    async def has_blob(self, reference: Reference, digest: str) -> bool:
        """Whether the repository has a blob already.

        Raises:
            RegistryError: refused or not reached.
        """
        endpoint = self._settings.find_origin(reference)
        accepted = frozenset({200, 404})
        url = endpoint.build_url(f"blobs/{digest}")
        async with self._exchange.send(endpoint, "HEAD", url, actions=_PUSH, accepted=accepted) as response:
            return response.status == 200  # noqa: PLR2004 - HTTP's word for yes

    async def push_blob(
        self,
        reference: Reference,
        blob: Descriptor,
        content: Callable[[], AsyncIterator[bytes]],
        *,
        mount_from: str | None = None,
    ) -> bool:
        """Write a blob unless it is there.

        Args:
            reference: the repository.
            blob: its digest and size.
            content: yields its bytes; called again when a transfer has to begin anew.
            mount_from: another repository of the same registry that has the blob; None where none is known.

        Returns:
            Whether bytes were sent.

        Raises:
            CacheError: `content` yields more or fewer bytes than the descriptor says.
            RegistryError: refused, or not reached in all attempts.
        """
        if await self.has_blob(reference, blob.digest):
            return False
        endpoint = self._settings.find_origin(reference)

        async def once() -> bool:
            # A transfer that broke off leaves an upload that cannot be used again, so each attempt begins its own.
            place = await self._begin(endpoint, blob, mount_from)
            if place is None:
                return False
            outgoing = _Outgoing(blob, content)
            try:
                async with self._exchange.send(
                    endpoint,
                    "PUT",
                    place,
                    actions=_PUSH,
                    accepted=frozenset({_CREATED}),
                    headers={"Content-Type": "application/octet-stream", "Content-Length": str(blob.size)},
                    body=outgoing.read_chunks,
                    body_bytes=blob.size,
                    attempts=1,
                ):
                    return True
            except RegistryError:
                if outgoing.failure is not None:
                    raise outgoing.failure from None
                raise

        return await self._exchange.retry(endpoint, once)

    async def _begin(self, endpoint: RegistryEndpoint, blob: Descriptor, mount_from: str | None) -> str | None:
        """Begin an upload, and return where to put the blob; None where it has been mounted."""
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
                raise RegistryError(f"{endpoint.registry} takes an upload without saying where")
            place = read_url(location, base=str(response.url), said_by=endpoint.registry)
        return f"{place}{'&' if place.raw_query_string else '?'}{urlencode({'digest': blob.digest})}"

    async def push_manifest(self, reference: Reference, content: bytes, media_type: str) -> str:
        """Write a manifest under the reference's tag or, without one, under its digest.

        Returns:
            Its digest.

        Raises:
            CacheError: the reference names another digest, or the content is no manifest.
            RegistryError: refused, not reached, or stored as something else.
        """
        endpoint = self._settings.find_origin(reference)
        digest = compute_digest(content)
        document = decode_manifest(content, media_type)
        if reference.digest not in {None, digest}:
            raise CacheError(
                f"a manifest with the digest {digest} cannot be written as {reference}", next_step="name a tag"
            )
        url = endpoint.build_url(f"manifests/{reference.tag or digest}")
        async with self._put(endpoint, url, content, media_type) as response:
            said = response.headers.get("Docker-Content-Digest", digest)
            kept_subject = "OCI-Subject" in response.headers
        if said != digest:
            raise RegistryError(f"{endpoint.registry} stored {digest} as {said[:71]!a}")
        if document.subject is not None and not kept_subject:
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
        """Add a referrer to the tag that stands for the list where a registry keeps none."""
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
        if answer.status == 200:  # noqa: PLR2004 - HTTP's word for yes
            document = decode_manifest(answer.content)
            if not isinstance(document, Index):
                raise CacheError(f"{url} is no index, so a signature cannot be listed there")
            if any(descriptor.digest == entry.digest for descriptor in document.manifests):
                return
            # What others wrote stays as it is, also where we do not know what it means.
            listed = msgspec.json.decode(answer.content)
        listed["manifests"] = [*(listed["manifests"] or ()), msgspec.to_builtins(entry)]
        async with self._put(endpoint, url, msgspec.json.encode(listed), OCI_INDEX):
            pass


class _Outgoing:
    """A blob's bytes on their way out. What goes wrong with them is kept, as it is no fault of the registry's."""

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
                raise CacheError(f"{self._blob.digest} is longer than the {expected} bytes it was to be sent with")
            yield chunk
        if size < expected:
            raise CacheError(f"{self._blob.digest} is shorter than the {expected} bytes it was to be sent with")
