"""The cache that an object names in its annotation, if its namespace allows that."""

from __future__ import annotations

from accelkit.cachecontroller.cluster_view import CLAIMS, ObjectName, ObservedObject
from accelkit.model.keys import CACHE_KEY_ANNOTATION


def read_key(name: ObjectName, observed: ObservedObject | None, home: str) -> str | None:
    """Return the key of the cache that an object names; None if it names none, or must not name it.

    Tenants can write claims. So a claim may name a cache of its own namespace or of the cluster. In accelkit's
    namespace, where volumes are filled, it may name any cache.

    Args:
        name: name of the object.
        observed: the object.
        home: accelkit's own namespace.
    """
    key = (observed.metadata.annotations or {}).get(CACHE_KEY_ANNOTATION) if observed is not None else None
    if not key or "/" not in key:
        return None
    if name.kind == CLAIMS and key.partition("/")[0] not in {"", name.namespace} and name.namespace != home:
        return None
    return key
