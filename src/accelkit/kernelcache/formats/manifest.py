"""`manifest.json` of a cache image: its entries, in MCV's words."""

from __future__ import annotations

import msgspec

from accelkit.kernelcache.formats.cache import Cache


def manifest(cache: Cache) -> bytes:
    """Write the manifest of a cache."""
    return msgspec.json.format(msgspec.json.encode({cache.format: cache.entries}), indent=2)
