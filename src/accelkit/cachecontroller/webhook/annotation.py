"""Parser for the annotation `cache.accelkit.io/mount`, which requests caches for the containers of a pod."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from accelkit.errors import AccelkitError
from accelkit.model.keys import CACHE_MOUNT_ANNOTATION
from accelkit.texts import shorten

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_ENTRY: Final = re.compile(r"([a-z0-9][a-z0-9.-]{0,252})(?:=([a-z0-9][a-z0-9-]{0,62})(?::(/[^\s,:]*))?)?")
_MOST: Final = 16
_MOST_CHARACTERS: Final = 64 * 1024


class AnnotationError(AccelkitError):
    """The annotation is invalid or cannot be satisfied; the message contains the reason."""


@dataclass(frozen=True, slots=True)
class MountRequest:
    """Request to mount a cache in a pod.

    Attributes:
        cache: name of the cache.
        container: name of the container.
        path: mount path; empty for the mount path of the cache.
    """

    cache: str
    container: str
    path: str = ""


def parse_requests(annotations: dict[str, str], containers: Sequence[dict[str, Any]]) -> list[MountRequest]:
    """Parse the annotation: entries of the form `NAME[=CONTAINER[:PATH]]`, separated by commas or spaces.

    The annotation `kubectl.kubernetes.io/default-container` sets the default container; without this annotation, it is
    the first container.

    Args:
        annotations: annotations of the pod.
        containers: all containers of the pod, regular containers first.

    Raises:
        AnnotationError: an entry is invalid, or refers to a container that does not exist.
    """
    text = annotations.get(CACHE_MOUNT_ANNOTATION) or ""
    if len(text) > _MOST_CHARACTERS:
        raise AnnotationError(f"annotation {CACHE_MOUNT_ANNOTATION} has more than {_MOST_CHARACTERS} characters")
    entries = [each for each in re.split(r"[\s,]+", text) if each]
    if len(entries) > _MOST:
        raise AnnotationError(
            f"annotation {CACHE_MOUNT_ANNOTATION} requests {len(entries)} mounts, over the limit of {_MOST}"
        )
    names = [str(each.get("name", "")) for each in containers]
    default = annotations.get(DEFAULT_CONTAINER, "")
    default = default if default in names else next(iter(names), "")
    requests = []
    for entry in entries:
        found = _ENTRY.fullmatch(entry)
        if found is None or ".." in (found[3] or "").split("/"):
            raise AnnotationError(
                f"annotation {CACHE_MOUNT_ANNOTATION} has the invalid entry {shorten(entry, 80)!r}; use NAME, "
                f"NAME=CONTAINER or NAME=CONTAINER:/PATH, separated by commas"
            )
        container = found[2] or default
        if container not in names:
            raise AnnotationError(
                f"annotation {CACHE_MOUNT_ANNOTATION} names the unknown container {container!r}; use one of: "
                f"{', '.join(names)}"
            )
        requests.append(MountRequest(found[1], container, (found[3] or "").rstrip("/")))
    return list(dict.fromkeys(requests))
