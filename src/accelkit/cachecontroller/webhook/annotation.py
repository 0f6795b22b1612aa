"""Parser of `cache.accelkit.io/mount`: the requested caches of a pod, with their containers and paths."""

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
    """The annotation is invalid or cannot be satisfied; the text contains the reason."""


@dataclass(frozen=True, slots=True)
class MountRequest:
    """A cache that a pod requests.

    Attributes:
        cache: name of the cache.
        container: name of the container.
        path: mount path; empty for the path for which the cache is prepared.
    """

    cache: str
    container: str
    path: str = ""


def parse_requests(annotations: dict[str, str], containers: Sequence[dict[str, Any]]) -> list[MountRequest]:
    """Parse the annotation `NAME[=CONTAINER[:PATH]]`, with several entries separated by commas or spaces.

    The default container is that of the annotation `kubectl.kubernetes.io/default-container`, otherwise the first one.

    Args:
        annotations: annotations of the pod.
        containers: containers that may be named; the first one is the first regular container.

    Raises:
        AnnotationError: an entry does not have this form, or names a container that does not exist.
    """
    text = annotations.get(CACHE_MOUNT_ANNOTATION) or ""
    if len(text) > _MOST_CHARACTERS:
        raise AnnotationError(f"annotation {CACHE_MOUNT_ANNOTATION} has more than {_MOST_CHARACTERS} characters")
    entries = [each for each in re.split(r"[\s,]+", text) if each]
    if len(entries) > _MOST:
        raise AnnotationError(
            f"annotation {CACHE_MOUNT_ANNOTATION} names {len(entries)} mounts, over the limit of {_MOST}"
        )
    names = [str(each.get("name", "")) for each in containers]
    default = annotations.get(DEFAULT_CONTAINER, "")
    default = default if default in names else next(iter(names), "")
    requests = []
    for entry in entries:
        found = _ENTRY.fullmatch(entry)
        if found is None or ".." in (found[3] or "").split("/"):
            raise AnnotationError(
                f"annotation {CACHE_MOUNT_ANNOTATION} has {shorten(entry, 80)!r}; write NAME, NAME=CONTAINER or "
                f"NAME=CONTAINER:/PATH, with commas between"
            )
        container = found[2] or default
        if container not in names:
            raise AnnotationError(
                f"annotation {CACHE_MOUNT_ANNOTATION} names container {container!r}; the pod has {', '.join(names)}"
            )
        requests.append(MountRequest(found[1], container, (found[3] or "").rstrip("/")))
    return list(dict.fromkeys(requests))
