"""The registry client, which reads and writes manifests, blobs and referrers by image name."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Self

from yarl import URL

from accelkit.errors import CacheError, RegistryError
from accelkit.kernelcache.oci.documents import (
    INDEX_TYPES,
    MANIFEST_TYPES,
    MAX_MANIFEST_BYTES,
    Descriptor,
    Index,
    Manifest,
    decode_manifest,
)
from accelkit.kernelcache.oci.reference import Reference, compute_digest
from accelkit.kernelcache.registry.blobs import stream_blob
from accelkit.kernelcache.registry.destinations import have_same_origin, read_url
from accelkit.kernelcache.registry.endpoints import Endpoints, Problem
from accelkit.kernelcache.registry.exchange import Exchange
from accelkit.kernelcache.registry.settings import RegistryEndpoint, RegistrySettings
from accelkit.kernelcache.registry.upload import Uploads

_ACCEPT = ", ".join(sorted(MANIFEST_TYPES | INDEX_TYPES))
# The limits on a list of referrers: the number of pages, and the size in bytes.
_MAX_PAGES = 50
_MAX_LIST_BYTES = 16 << 20
# The HTTP statuses that registries without the referrers API return.
_UNSUPPORTED = frozenset({400, 404, 405, 406, 501})


@dataclass(frozen=True)
class RawManifest:
    """A manifest with the unchanged bytes from the registry. `digest` is computed from `content`."""

    content: bytes
    media_type: str
    digest: str

    def decode(self) -> Manifest | Index:
        """Return the decoded document.

        Raises:
            CacheError: the document is neither a manifest nor an index.
        """
        return decode_manifest(self.content, self.media_type)


@dataclass(frozen=True)
class Referrers:
    """The referrers of a manifest. If `problems` is not empty, the list may be incomplete."""

    descriptors: tuple[Descriptor, ...] = ()
    problems: tuple[Problem, ...] = ()


class RegistryClient:
    """A client that reads and writes images. Use it as a context manager with `async with`.

    Args:
        settings: the registry settings, with logins and timeouts.
        sleep: a function that waits between attempts; tests replace it.
    """

    def __init__(
        self, settings: RegistrySettings | None = None, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._settings = settings or RegistrySettings()
        self._exchange = Exchange(self._settings, sleep)
        self._endpoints = Endpoints(self._settings)
        self.uploads = Uploads(self._exchange, self._settings)

    async def __aenter__(self) -> Self:
        await self._exchange.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._exchange.__aexit__()

    async def read_manifest(self, reference: Reference) -> RawManifest:
        """Read a manifest or index by digest, or by tag if the reference has no digest.

        Raises:
            RegistryError: the manifest is missing (status 404) or has a different digest, or the request was rejected.
        """
        return await self._endpoints.request_in_turn(
            reference, lambda endpoint: self._read_manifest(endpoint, reference)
        )

    async def read_blob(self, reference: Reference, blob: Descriptor, *, limit: int) -> bytes:
        """Return the content of a small blob.

        Raises:
            RegistryError: the blob cannot be read (see `stream_blob`), or the announced size exceeds `limit` bytes.
        """
        if blob.size > limit:
            raise RegistryError(
                f"a blob of {reference.name} is announced with {blob.size} bytes; at most {limit} are allowed"
            )

        async def read(endpoint: RegistryEndpoint) -> bytes:
            return b"".join([chunk async for chunk in stream_blob(self._exchange, endpoint, blob)])

        return await self._endpoints.request_in_turn(reference, read)

    async def stream_blob(self, reference: Reference, blob: Descriptor) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a blob as they arrive. They are verified only if the iteration completes without an error.

        Raises:
            RegistryError: the blob is missing, has a different size or digest, or the transfer was interrupted too many
                times.
        """
        endpoints = self._settings.list_endpoints(reference)
        for endpoint in endpoints:
            begun = False
            try:
                async with contextlib.aclosing(stream_blob(self._exchange, endpoint, blob)) as chunks:
                    async for chunk in chunks:
                        begun = True
                        yield chunk
            except RegistryError:
                # The caller already received bytes from this mirror, so the transfer cannot restart from another
                # server.
                if begun or endpoint is endpoints[-1]:
                    raise
            else:
                return

    async def read_manifests(self, reference: Reference) -> tuple[list[RawManifest], list[Problem]]:
        """Read a manifest from the registry and from each of its mirrors, because their tags may differ.

        Returns:
            The existing manifests without duplicates, and the problems if the registry itself could not be read.
        """
        outcomes = await self._endpoints.request_all(
            reference, lambda endpoint: self._read_manifest(endpoint, reference)
        )
        found = {each.digest: each for each in outcomes if isinstance(each, RawManifest)}
        return list(found.values()), _select_problems(
            [() if isinstance(each, RawManifest) else _convert_problem(each) for each in outcomes]
        )

    async def list_referrers(self, reference: Reference) -> Referrers:
        """List a manifest's referrers from the referrers API and the fallback tag. The reference must have a digest.

        Both the API and the tag are queried, because some registries support only the tag, and their API returns an
        empty list. All mirrors are also queried, because only mirrors are reachable in an air-gapped cluster.

        Raises:
            CacheError: the reference has no digest.
        """
        if not reference.digest:
            raise CacheError(f"cannot list the referrers of {reference} without a digest")
        by_digest: dict[str, Descriptor] = {}
        problems: list[Problem] = []
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._endpoints.request_all(reference, functools.partial(read, reference)))
                for read in (self._list_referrers, self._read_fallback_tag)
            ]
        for outcomes in (task.result() for task in tasks):
            lists = [
                each if isinstance(each, Referrers) else Referrers((), _convert_problem(each)) for each in outcomes
            ]
            by_digest |= {descriptor.digest: descriptor for each in lists for descriptor in each.descriptors}
            problems += _select_problems([each.problems for each in lists])
        return Referrers(tuple(by_digest.values()), tuple(problems))

    async def _list_referrers(self, reference: Reference, endpoint: RegistryEndpoint) -> Referrers:
        found: list[Descriptor] = []
        try:
            async for page in self._read_pages(endpoint, endpoint.build_url(f"referrers/{reference.digest}")):
                found += _decode_index(page).manifests
        except RegistryError as exc:
            if exc.status in _UNSUPPORTED and not found:
                return Referrers()
            if not found:
                raise
            return Referrers(tuple(found), (exc,))
        except CacheError as exc:
            return Referrers(tuple(found), (exc,))
        return Referrers(tuple(found))

    async def _read_fallback_tag(self, reference: Reference, endpoint: RegistryEndpoint) -> Referrers:
        tag = reference.require_digest().replace(":", "-")
        raw = await self._read_manifest(endpoint, reference.with_tag(tag))
        return Referrers(_decode_index(raw.content).manifests)

    async def _read_manifest(self, endpoint: RegistryEndpoint, reference: Reference) -> RawManifest:
        url = endpoint.build_url(f"manifests/{reference.version}")
        what = f"the manifest of {reference}"
        answer = await self._exchange.read(
            endpoint, url, limit=MAX_MANIFEST_BYTES, what=what, headers={"Accept": _ACCEPT}
        )
        stated = answer.headers.get("Docker-Content-Digest", "")
        digest = compute_digest(answer.content)
        if reference.digest and digest != reference.digest:
            raise RegistryError(f"{endpoint.registry} returned for {reference} a manifest with the digest {digest}")
        if stated.startswith("sha256:") and stated != digest:
            raise RegistryError(
                f"{endpoint.registry} states the digest {stated[:71]!a} for {what}, but its content has {digest}"
            )
        return RawManifest(answer.content, answer.headers.get("Content-Type", ""), digest)

    async def _read_pages(self, endpoint: RegistryEndpoint, url: str) -> AsyncGenerator[bytes, None]:
        what = f"a list of {endpoint.repository}"
        remaining = _MAX_LIST_BYTES
        for _ in range(_MAX_PAGES):
            answer = await self._exchange.read(endpoint, url, limit=remaining, what=what)
            remaining -= len(answer.content)
            yield answer.content
            if answer.following is None:
                return
            following = read_url(answer.following, base=url, registry=endpoint.registry)
            if not have_same_origin(following, URL(endpoint.base)):
                raise RegistryError(
                    f"{endpoint.registry} continues {what} on {following.raw_host}, which is another host"
                )
            url = str(following)
        raise RegistryError(f"{what} has more than {_MAX_PAGES} pages")


def _decode_index(content: bytes) -> Index:
    document = decode_manifest(content)
    if not isinstance(document, Index):
        raise CacheError("the list of referrers is the manifest of an image")
    return document


def _convert_problem(exc: Problem) -> tuple[Problem, ...]:
    """Return an error as a list with one problem; return an empty list if the object is missing."""
    return () if isinstance(exc, RegistryError) and exc.missing else (exc,)


def _select_problems(by_endpoint: list[tuple[Problem, ...]]) -> list[Problem]:
    """Return all problems; return an empty list if the last endpoint, which is the registry itself, has no problem."""
    return [problem for each in by_endpoint for problem in each] if by_endpoint[-1] else []
