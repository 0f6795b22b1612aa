"""Reader for the annotation that refers to the cache of an object. Only permitted references are returned."""

from __future__ import annotations

from accelkit.cachecontroller.cluster_view import CLAIMS, ObjectName, ObservedObject
from accelkit.model.keys import CACHE_KEY_ANNOTATION


def read_key(name: ObjectName, observed: ObservedObject | None, home: str) -> str | None:
    """Return the key of the cache to which an object refers; None if the reference is missing or not permitted.

    Because tenants can write claims, a claim may refer only to a cache in its own namespace or to a ClusterGKMCache. In
    accelkit's namespace, where volumes are filled, a claim may refer to any cache.

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
