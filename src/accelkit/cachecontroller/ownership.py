"""Of which cache an object says that it is, where it lies in a namespace in which that can be."""

from __future__ import annotations

from accelkit.cachecontroller.cluster_view import CLAIMS, ObjectName, ObservedObject
from accelkit.model.keys import CACHE_KEY_ANNOTATION


def read_key(name: ObjectName, seen: ObservedObject | None, home: str) -> str | None:
    """Return the key of the cache of which an object says that it is; None where it says nothing, or lies.

    Claims lie where tenants write: of a cache of one namespace they are in that one, or are filled in ours.

    Args:
        name: of the object.
        seen: the object.
        home: accelkit's own namespace.
    """
    key = (seen.metadata.annotations or {}).get(CACHE_KEY_ANNOTATION) if seen is not None else None
    if not key or "/" not in key:
        return None
    if name.kind == CLAIMS and key.partition("/")[0] not in {"", name.namespace} and name.namespace != home:
        return None
    return key
