"""The variables of a pod that may make it miss a cache, by the private copies that its containers mount."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from accelkit.kernelcache.formats.recorded import bound_texts, select_comparable

# What is kept of a pod is no more than this, whatever its users write into it.
_MAX_CONTAINERS: Final = 8
_MAX_BYTES: Final = 4096


class Variable(msgspec.Struct, rename="camel"):
    """A variable of a container."""

    name: str = ""
    value: str | None = None
    value_from: dict[str, Any] | None = None


class Mount(msgspec.Struct):
    """A volume that a container mounts."""

    name: str = ""


class Container(msgspec.Struct, rename="camel"):
    """A container, as far as it matters here."""

    name: str = ""
    env: list[Variable] | None = None
    volume_mounts: list[Mount] | None = None


def read_variables(
    containers: Sequence[Container], copies: Collection[str]
) -> dict[str, tuple[Mapping[str, str], ...]]:
    """Return what the containers that mount a private copy set in so many words, by the copy's volume."""
    found: dict[str, tuple[Mapping[str, str], ...]] = {}
    for container in containers[:_MAX_CONTAINERS]:
        mounted = {each.name for each in container.volume_mounts or ()}.intersection(copies)
        own = _read(container) if mounted else {}
        if own:
            found |= {copy: (*found.get(copy, ()), own) for copy in sorted(mounted)}
    return found


def _read(container: Container) -> dict[str, str]:
    # The last of several counts.
    told = {each.name: None if each.value_from else each.value or "" for each in container.env or ()}
    return bound_texts(select_comparable(told), _MAX_BYTES)
