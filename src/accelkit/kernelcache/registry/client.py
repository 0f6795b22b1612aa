"""The client of a registry: reads manifests, blobs and referrers by an image's name."""

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
# Pages of referrers that are followed, and the size of the whole list.
_MAX_PAGES = 50
_MAX_LIST_BYTES = 16 << 20
# What registries answer that do not know the referrers API.
_UNSUPPORTED = frozenset({400, 404, 405, 406, 501})


@dataclass(frozen=True)
class RawManifest:
    """A manifest as it was sent. `digest` is that of `content`, computed here."""

    content: bytes
    media_type: str
    digest: str

    def decode(self) -> Manifest | Index:
        """Read it.

        Raises:
            CacheError: it is neither a manifest nor an index.
        """
        return decode_manifest(self.content, self.media_type)


@dataclass(frozen=True)
class Referrers:
    """What points at a manifest. `problems` is why something could not be read, which is not the same as nothing."""

    descriptors: tuple[Descriptor, ...] = ()
    problems: tuple[Problem, ...] = ()


class RegistryClient:
    """Reads and writes images; opened and closed with `async with`.

    Args:
        settings: names, logins, patience.
        sleep: waits between attempts; a test puts its own here.
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
        """Read a manifest or index by digest, else by tag.

        Raises:
            RegistryError: it is not there (status 404), refused, or not what its digest says.
        """
        return await self._endpoints.ask_in_turn(reference, lambda endpoint: self._manifest(endpoint, reference))

    async def read_blob(self, reference: Reference, blob: Descriptor, *, limit: int) -> bytes:
        """Read a small blob whole.

        Raises:
            RegistryError: as `stream_blob`; or it is announced as longer than `limit` bytes.
        """
        if blob.size > limit:
            raise RegistryError(
                f"a blob of {reference.name} is announced with {blob.size} bytes; at most {limit} are read"
            )

        async def whole(endpoint: RegistryEndpoint) -> bytes:
            return b"".join([chunk async for chunk in stream_blob(self._exchange, endpoint, blob)])

        return await self._endpoints.ask_in_turn(reference, whole)

    async def stream_blob(self, reference: Reference, blob: Descriptor) -> AsyncGenerator[bytes, None]:
        """Yield a blob's bytes as they come. They are proven only when the iteration has ended without an error.

        Raises:
            RegistryError: it is not there, is of another size, has another digest, or breaks off too often.
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
                # What a mirror has begun is already with the caller and cannot be taken back.
                if begun or endpoint is endpoints[-1]:
                    raise
            else:
                return

    async def read_manifests(self, reference: Reference) -> tuple[list[RawManifest], list[Problem]]:
        """Read a manifest from the registry and from each of its mirrors, for tags that may differ there.

        Returns:
            Those that are there, each once, and why the registry itself could not tell.
        """
        outcomes = await self._endpoints.ask_all(reference, lambda endpoint: self._manifest(endpoint, reference))
        found = {each.digest: each for each in outcomes if isinstance(each, RawManifest)}
        return list(found.values()), _select_problems(
            [() if isinstance(each, RawManifest) else _convert_problem(each) for each in outcomes]
        )

    async def list_referrers(self, reference: Reference) -> Referrers:
        """List what points at the manifest of a reference with a digest, by the referrers API and by the fallback tag.

        Both are asked, because some registries answer the first with an empty list and keep only the second. And all
        mirrors are asked beside the registry: behind a gap, only they have anything.

        Raises:
            CacheError: the reference has no digest.
        """
        if not reference.digest:
            raise CacheError(f"what refers to {reference} can only be asked by digest")
        by_digest: dict[str, Descriptor] = {}
        problems: list[Problem] = []
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._endpoints.ask_all(reference, functools.partial(ask, reference)))
                for ask in (self._list_referrers, self._read_fallback_tag)
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
            async for page in self._pages(endpoint, endpoint.build_url(f"referrers/{reference.digest}")):
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
        raw = await self._manifest(endpoint, reference.with_tag(tag))
        return Referrers(_decode_index(raw.content).manifests)

    async def _manifest(self, endpoint: RegistryEndpoint, reference: Reference) -> RawManifest:
        url = endpoint.build_url(f"manifests/{reference.version}")
        what = f"the manifest of {reference}"
        answer = await self._exchange.read(
            endpoint, url, limit=MAX_MANIFEST_BYTES, what=what, headers={"Accept": _ACCEPT}
        )
        said = answer.headers.get("Docker-Content-Digest", "")
        digest = compute_digest(answer.content)
        if reference.digest and digest != reference.digest:
            raise RegistryError(f"{endpoint.registry} sends for {reference} a manifest with the digest {digest}")
        if said.startswith("sha256:") and said != digest:
            raise RegistryError(f"{endpoint.registry} calls {what} {said[:71]!a}, its bytes are {digest}")
        return RawManifest(answer.content, answer.headers.get("Content-Type", ""), digest)

    async def _pages(self, endpoint: RegistryEndpoint, url: str) -> AsyncGenerator[bytes, None]:
        what = f"a list of {endpoint.repository}"
        remaining = _MAX_LIST_BYTES
        for _ in range(_MAX_PAGES):
            answer = await self._exchange.read(endpoint, url, limit=remaining, what=what)
            remaining -= len(answer.content)
            yield answer.content
            if answer.following is None:
                return
            following = read_url(answer.following, base=url, said_by=endpoint.registry)
            if not have_same_origin(following, URL(endpoint.base)):
                raise RegistryError(f"{endpoint.registry} continues {what} on {following.raw_host}, another host")
            url = str(following)
        raise RegistryError(f"{what} has more than {_MAX_PAGES} pages")


def _decode_index(content: bytes) -> Index:
    document = decode_manifest(content)
    if not isinstance(document, Index):
        raise CacheError("an image stands where a list of referrers is due")
    return document


def _convert_problem(exc: Problem) -> tuple[Problem, ...]:
    """Return an error as a problem; that something is not there is none."""
    return () if isinstance(exc, RegistryError) and exc.missing else (exc,)


def _select_problems(by_endpoint: list[tuple[Problem, ...]]) -> list[Problem]:
    """Return the problems that count: none where the registry itself, which is the last one, has none."""
    return [problem for each in by_endpoint for problem in each] if by_endpoint[-1] else []
