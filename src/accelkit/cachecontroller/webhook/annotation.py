"""Reads `cache.accelkit.io/mount`: which caches a pod asks for, for which of its containers, and where."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from accelkit.model.keys import CACHE_MOUNT_ANNOTATION
from accelkit.texts import shorten

DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_ENTRY: Final = re.compile(r"([a-z0-9][a-z0-9.-]{0,252})(?:=([a-z0-9][a-z0-9-]{0,62})(?::(/[^\s,:]*))?)?")
_MOST: Final = 16
_MOST_CHARACTERS: Final = 64 * 1024


class AnnotationError(ValueError):
    """The annotation asks for something that cannot be; the text says what."""


@dataclass(frozen=True, slots=True)
class MountRequest:
    """A cache that a pod asks for.

    Attributes:
        cache: its name.
        container: that sees it.
        path: where; empty for where the cache is prepared to be seen.
    """

    cache: str
    container: str
    path: str = ""


def parse_requests(annotations: dict[str, str], containers: Sequence[dict[str, Any]]) -> list[MountRequest]:
    """Read the annotation `NAME[=CONTAINER[:PATH]]`, several of them with commas or spaces between.

    Without a container, it is that of the annotation `kubectl.kubernetes.io/default-container`, else the first one.

    Args:
        annotations: of the pod.
        containers: those of the pod that may be named; the first one that is no init container first.

    Raises:
        AnnotationError: it is not of this form, or names a container that is not there.
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
