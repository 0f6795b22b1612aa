"""metadata of Kubernetes objects; readers that need more fields extend it."""

from __future__ import annotations

import msgspec


class ObjectMeta(msgspec.Struct, rename="camel", omit_defaults=True):
    """metadata of an object; times are RFC 3339 texts, so they sort as they are."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
