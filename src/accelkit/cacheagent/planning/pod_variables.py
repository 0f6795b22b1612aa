"""Reader for environment variables of a pod that may cause cache misses. The result is keyed by private copy."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from accelkit.kernelcache.formats.recorded import bound_texts, select_comparable

# Limits on the data that is stored for a pod, because users control the content of pods.
_MAX_CONTAINERS: Final = 8
_MAX_BYTES: Final = 4096


class Variable(msgspec.Struct, rename="camel"):
    """An environment variable of a container."""

    name: str = ""
    value: str | None = None
    value_from: dict[str, Any] | None = None


class Mount(msgspec.Struct):
    """A volume mount of a container."""

    name: str = ""


class Container(msgspec.Struct, rename="camel"):
    """The fields of a container that the agent uses."""

    name: str = ""
    env: list[Variable] | None = None
    volume_mounts: list[Mount] | None = None


def read_variables(
    containers: Sequence[Container], copies: Collection[str]
) -> dict[str, tuple[Mapping[str, str], ...]]:
    """Return the literal variables of containers that mount a private copy, keyed by the copy's volume name."""
    found: dict[str, tuple[Mapping[str, str], ...]] = {}
    for container in containers[:_MAX_CONTAINERS]:
        mounted = {each.name for each in container.volume_mounts or ()}.intersection(copies)
        own = _read(container) if mounted else {}
        if own:
            found |= {copy: (*found.get(copy, ()), own) for copy in sorted(mounted)}
    return found


def _read(container: Container) -> dict[str, str]:
    # If a variable is defined several times, the last definition applies.
    values = {each.name: None if each.value_from else each.value or "" for each in container.env or ()}
    return bound_texts(select_comparable(values), _MAX_BYTES)
