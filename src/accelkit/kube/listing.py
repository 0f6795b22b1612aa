"""Reader for complete collections from the API server, page by page. Unreadable objects are reported and skipped.

A user with permission to create pods can fill an object with megabytes of data, and decoded JSON requires six times as
much memory. Therefore, the first page is small, and the page size increases as long as the received size is below the
target. Only the fields that the caller requires are retained.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from accelkit.errors import ApiError, PageTooLargeError
from accelkit.kube.client import ApiClient
from accelkit.kube.nesting import decode
from accelkit.model.object_meta import ObjectIdentity
from accelkit.texts import MAX_QUOTED, shorten

log = logging.getLogger(__name__)

# Objects per page: the maximum, and the number in the first page, before the size of the objects is known.
_MOST, _FIRST = 500, 8
# Bytes per page: the target size, and the maximum accepted size.
_AIM_BYTES, _MOST_BYTES = 8 << 20, 32 << 20
_METADATA_ALONE: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# Errors that the decoder raises, including errors for invalid UTF-8 and for values that are nested too deeply.
UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Listed(Protocol):
    """An object in a collection. Its metadata contains a resource version at which a watch can start."""

    @property
    def metadata(self) -> ObjectIdentity:
        """The metadata of the object."""


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
    """The metadata of an object whose other fields may be unreadable."""

    metadata: ObjectIdentity


_identified = msgspec.json.Decoder(Identified)


def log_unreadable(text: bytes, error: Exception) -> None:
    """Log that an unreadable object was skipped."""
    log.warning("skipped unreadable object %s: %s", name_unreadable(text), error)


async def list_identities(api: ApiClient, path: str) -> tuple[list[ObjectIdentity], str]:
    """Return the identity and resource version of each object in a collection, and the collection's resource version.

    The API server sends only the metadata, which is a small part of most objects.

    Raises:
        ApiError: the collection cannot be read (see `list_all`).
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
    """Read a complete collection page by page, and return its objects and its resource version.

    Args:
        api: an open client.
        path: the collection.
        type_: the msgspec type of the objects.
        query: label and field selectors.
        trim: a function that is called with each object before the next page is read, to remove fields that are not
            needed.
        on_unreadable: a function that is called with the text of each object that cannot be read, and the error. The
            object is skipped.
        accept: the media type of the pages; empty for the default media type of the collection.

    Raises:
        ApiError: the API server rejected the request or did not respond, or its response cannot be read. The status is
            410 if reading the pages took too long.
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
            page = decode(decoder, answer)
            found, metadata = page.items or [], page.metadata
        except UNREADABLE as exc:
            try:
                raw = decode(_raw_page, answer)
            except UNREADABLE:
                raise ApiError(f"cannot read the list of {path}: {exc}") from exc
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
    decoder = msgspec.json.Decoder(type_)
    for item in items:
        try:
            yield decode(decoder, bytes(item))
        except UNREADABLE as exc:
            on_unreadable(bytes(item), exc)


def name_unreadable(text: bytes) -> str:
    """Return a name for an unreadable object, for use in messages."""
    try:
        return str(decode(_identified, text).metadata)
    except UNREADABLE:
        return f"an object that begins with {shorten(text[:MAX_QUOTED].decode(errors='replace'))}"


_raw_page = msgspec.json.Decoder(_RawPage)
