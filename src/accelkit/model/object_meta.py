"""metadata of Kubernetes objects; readers that need more fields extend it."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

# After its grace period a pod still has to be ended by its kubelet, and clocks differ. The grace period is chosen by
# whoever creates the pod, and so are finalizers, which keep it for ever.
LEAVING_MARGIN_SECONDS: Final = 60.0
MOST_LEAVING_SECONDS: Final = 900.0


def read_time(text: str | None) -> float:
    """Return an RFC 3339 time in seconds since 1970; 0, which is long ago, where the text is none."""
    try:
        return datetime.fromisoformat(text or "").timestamp()
    except (ValueError, OverflowError):
        return 0.0


def read_version(text: str) -> int | None:
    """Return a resourceVersion as the integer by which versions are compared; None where it is not one."""
    return int(text) if text.isascii() and text.isdigit() else None


def is_older(version: str, other: str) -> bool:
    """Return whether a resourceVersion is from before another one; False where one of them is not an integer."""
    one, two = read_version(version), read_version(other)
    return one is not None and two is not None and one < two


class ObjectIdentity(msgspec.Struct, rename="camel", omit_defaults=True):
    """What of metadata says which object it is, in which version."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} ({self.uid})"

    def is_older_than(self, other: ObjectIdentity) -> bool:
        """Return whether this is from before another version of the object, as `is_older` compares them."""
        return is_older(self.resource_version, other.resource_version)


class ObjectMeta(ObjectIdentity, rename="camel", omit_defaults=True):
    """metadata of an object; times are RFC 3339 texts, so they sort as they are."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def leaves_by(self) -> float:
        """When what is being deleted is no longer expected to leave, in seconds since 1970; 0 where nobody can say.

        A minute after its grace period, which ends at the deletion timestamp, or 15 minutes after its deletion.
        """
        end = read_time(self.deletion_timestamp)
        if not end:
            return 0.0
        began = end - (self.deletion_grace_period_seconds or 0)
        return min(end + LEAVING_MARGIN_SECONDS, began + MOST_LEAVING_SECONDS)
