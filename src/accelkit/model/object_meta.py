"""The `metadata` of Kubernetes objects. Readers that need more fields extend these types."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

# After the grace period, the kubelet still needs time to stop the pod, and clocks may differ. The user who creates the
# pod chooses the grace period, and can set finalizers that prevent the deletion indefinitely.
LEAVING_MARGIN_SECONDS: Final = 60.0
MOST_LEAVING_SECONDS: Final = 900.0


def read_time(text: str | None) -> float:
    """Return an RFC 3339 time as Unix seconds; 0 if the string is not a time."""
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except (ValueError, OverflowError):
        return 0.0


def read_version(text: str) -> int | None:
    """Return a resourceVersion as an integer, so that versions can be compared; None if it is not an integer."""
    return int(text) if text.isascii() and text.isdigit() else None


def is_older(version: str, other: str) -> bool:
    """Return whether `version` is older than `other`; False if one of the two resourceVersions is not an integer."""
    one, two = read_version(version), read_version(other)
    return one is not None and two is not None and one < two


class ObjectIdentity(msgspec.Struct, rename="camel", omit_defaults=True):
    """The `metadata` fields that identify an object and its version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} ({self.uid})"

    def is_older_than(self, other: ObjectIdentity) -> bool:
        """Return whether this version is older than another version of the object, as `is_older` compares them."""
        return is_older(self.resource_version, other.resource_version)


class ObjectMeta(ObjectIdentity, rename="camel", omit_defaults=True):
    """The `metadata` of an object. Times are RFC 3339 strings, which sort chronologically."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def leaves_by(self) -> float:
        """The time until which an object that is being deleted is expected to exist, in Unix seconds.

        This time is one minute after the deletion timestamp (the end of the grace period), but at most 15 minutes after
        the request to delete the object. It is 0 for an object that is not being deleted.
        """
        end = read_time(self.deletion_timestamp)
        if not end:
            return 0.0
        began = end - (self.deletion_grace_period_seconds or 0)
        return min(end + LEAVING_MARGIN_SECONDS, began + MOST_LEAVING_SECONDS)
