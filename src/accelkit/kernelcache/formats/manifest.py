"""`manifest.json` of a cache image: its entries, in MCV's words."""

from __future__ import annotations

from typing import Final

import msgspec

from accelkit.errors import CacheError
from accelkit.kernelcache.formats.cache import HABANA, TRITON, VLLM, Cache
from accelkit.kernelcache.formats.entries import Entry, Kernel, Recipe, VllmEntry

MAX_MANIFEST_BYTES: Final = 64 * 1024 * 1024
MAX_ENTRIES: Final = 1_000_000


class Manifest(msgspec.Struct, frozen=True):
    """The entries of a cache of one format."""

    format: str
    entries: tuple[Entry, ...]


class _Document(msgspec.Struct):
    triton: tuple[Kernel, ...] | None = None
    vllm: tuple[VllmEntry, ...] | None = None
    habana: tuple[Recipe, ...] | None = None


_decoder = msgspec.json.Decoder(_Document)


def manifest(cache: Cache) -> bytes:
    """Write the manifest of a cache."""
    return msgspec.json.format(msgspec.json.encode({cache.format: cache.entries}), indent=2)


def read_manifest(document: bytes) -> Manifest:
    """Read a manifest, ours or MCV's.

    Raises:
        CacheError: it is too big, malformed, or not of exactly one format.
    """
    if len(document) > MAX_MANIFEST_BYTES:
        raise CacheError(f"a manifest of {len(document)} bytes is over the limit of {MAX_MANIFEST_BYTES}")
    try:
        read = _decoder.decode(document)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as exc:
        raise CacheError(f"the manifest cannot be read: {exc}") from exc
    lists: dict[str, tuple[Entry, ...] | None] = {TRITON: read.triton, VLLM: read.vllm, HABANA: read.habana}
    found = [Manifest(name, entries) for name, entries in lists.items() if entries is not None]
    if len(found) != 1:
        raise CacheError(f"the manifest lists entries of {len(found)} formats, and a cache has one")
    if len(found[0].entries) > MAX_ENTRIES:
        raise CacheError(f"the manifest lists {len(found[0].entries)} entries, over the limit of {MAX_ENTRIES}")
    return found[0]
