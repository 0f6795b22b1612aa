"""metadata of Kubernetes objects; readers that need more fields extend it."""

from __future__ import annotations

import msgspec


class ObjectIdentity(msgspec.Struct, rename="camel", omit_defaults=True):
    """What of metadata says which object it is, in which version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} ({self.uid})"


class ObjectMeta(ObjectIdentity, rename="camel", omit_defaults=True):
    """metadata of an object; times are RFC 3339 texts, so they sort as they are."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
