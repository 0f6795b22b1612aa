"""Cache of an object according to its annotation, if the object may name this cache."""

from __future__ import annotations

from accelkit.cachecontroller.cluster_view import CLAIMS, ObjectName, ObservedObject
from accelkit.model.keys import CACHE_KEY_ANNOTATION


def read_key(name: ObjectName, observed: ObservedObject | None, home: str) -> str | None:
    """Return the key of the cache that an object names; None if it names no cache, or may not name this cache.

    Because tenants can write claims, a claim may only name a cache of its own namespace or a ClusterGKMCache. In
    accelkit's namespace, where volumes are filled, a claim may name any cache.

    Args:
        name: name of the object.
        observed: the object; None if it does not exist.
        home: accelkit's own namespace.
    """
    key = (observed.metadata.annotations or {}).get(CACHE_KEY_ANNOTATION) if observed is not None else None
    if not key or "/" not in key:
        return None
    if name.kind == CLAIMS and key.partition("/")[0] not in {"", name.namespace} and name.namespace != home:
        return None
    return key
