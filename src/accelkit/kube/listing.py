"""Lists a collection of the API server, page by page; an object that cannot be read is left out and told of.

Whoever may create pods may fill an object with megabytes, of which JSON makes six times as many. So pages begin small,
grow as long as what arrives is far from too much, and of each object is kept only what the caller needs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from accelkit.errors import ApiError, PageTooLargeError
from accelkit.kube.client import ApiClient
from accelkit.model.object_meta import ObjectIdentity
from accelkit.texts import MAX_SHOWN, shorten

log = logging.getLogger(__name__)

# Objects of a page: the most, and of the first, whose objects nobody has seen yet.
_MOST, _FIRST = 500, 8
# Bytes of a page: what is aimed at, and what is taken.
_AIM_BYTES, _MOST_BYTES = 8 << 20, 32 << 20
_METADATA_ALONE: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# What the decoder raises: also for text that is no UTF-8, and for what is nested too deep.
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Listed(Protocol):
    """What the objects of a collection must tell: the version from which a watch goes on."""

    @property
    def metadata(self) -> ObjectIdentity:
        """Metadata of the object."""


T = TypeVar("T", bound=Listed)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, Generic[T]):
    metadata: _ListMeta
    items: list[T] | None = None


class _RawPage(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class Identified(msgspec.Struct):
    """An object that may not be readable, by what every object has."""

    metadata: ObjectIdentity


_identified = msgspec.json.Decoder(Identified)


def log_unreadable(text: bytes, error: Exception) -> None:
    """Log an object that cannot be read."""
    log.warning("%s cannot be read and is left out: %s", name_unreadable(text), error)


async def list_identities(api: ApiClient, path: str) -> tuple[list[ObjectIdentity], str]:
    """Return which objects a collection has, each in its version, and the version of the collection.

    The API server sends metadata alone, which is a fraction of most objects.

    Raises:
        ApiError: as of `list_all`.
    """
    found, version = await list_all(api, path, Identified, accept=_METADATA_ALONE)
    return [each.metadata for each in found], version


async def list_all(
    api: ApiClient,
    path: str,
    type_: type[T],
    *,
    query: Mapping[str, str] | None = None,
    trim: Callable[[T], None] = lambda _object: None,
    on_unreadable: Callable[[bytes, Exception], None] = log_unreadable,
    accept: str = "",
) -> tuple[list[T], str]:
    """Return a whole collection, read page by page, and its resource version.

    Args:
        api: an open client.
        path: the collection.
        type_: the msgspec type of one object.
        query: label and field selectors.
        trim: takes from each object what need not be kept, before the next page is read.
        on_unreadable: told each object that cannot be read, which is left out, and why it cannot.
        accept: media type of the pages; empty for the collection's own.

    Raises:
        ApiError: the API server refused, or did not answer so that it can be read; 410 where the pages took too long.
    """
    decoder: msgspec.json.Decoder[_Page[T]] = msgspec.json.Decoder(_Page[type_])  # type: ignore[valid-type]
    items: list[T] = []
    page_query = dict(query or {})
    options = {"accept": accept} if accept else {}
    size = _FIRST
    while True:
        try:
            answer = await api.get_page(
                path, query={**page_query, "limit": str(size)}, max_bytes=_MOST_BYTES, **options
            )
        except PageTooLargeError:
            if size == 1:
                raise
            size = _FIRST if size > _FIRST else 1
            continue
        size = max(1, min(_MOST, 2 * size, size * _AIM_BYTES // max(len(answer), 1)))
        try:
            page = decoder.decode(answer)
            found, metadata = page.items or [], page.metadata
        except UNREADABLE as exc:
            try:
                raw = _raw_page.decode(answer)
            except UNREADABLE:
                raise ApiError(f"the list of {path} cannot be read: {exc}") from exc
            found, metadata = list(_read_each(raw.items or (), type_, on_unreadable)), raw.metadata
        for each in found:
            trim(each)
        items += found
        if not metadata.continue_:
            return items, metadata.resource_version
        page_query["continue"] = metadata.continue_


def _read_each(
    items: Iterable[msgspec.Raw], type_: type[T], on_unreadable: Callable[[bytes, Exception], None]
) -> Iterator[T]:
    for item in items:
        try:
            yield msgspec.json.decode(item, type=type_)
        except UNREADABLE as exc:
            on_unreadable(bytes(item), exc)


def name_unreadable(text: bytes) -> str:
    """Return what an object that cannot be read is called."""
    try:
        return str(_identified.decode(text).metadata)
    except UNREADABLE:
        return f"an object that begins {shorten(text[:MAX_SHOWN].decode(errors='replace'))}"


_raw_page = msgspec.json.Decoder(_RawPage)
