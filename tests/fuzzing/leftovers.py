"""Finds what is still known of objects that are gone, wherever a part keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

_ATOMS = (str, bytes, int, float, bool, type(None))
# What was logged once is remembered up to a number of keys, and not by what comes and goes.
_BOUNDED = {"accelkit.logs", "accelkit.reporting"}
# Deleted objects are remembered up to a number, for as long as older answers may arrive.
_BOUNDED_ATTRIBUTES = {("accelkit.model.observed_versions", "_deleted")}


def find_leftovers(root: object, is_gone: Callable[[str], bool]) -> list[str]:
    """Return where below `root` a text stands that is the name of something gone, as paths of attributes and keys."""
    return list(_walk(root, is_gone, "", set()))


def find_empty_shells(root: object) -> list[str]:
    """Return the dictionaries of `root` that keep empty collections: what filled them is gone, and they grow."""
    return [
        f".{name}[{key!r}]"
        for name, value in _attributes(root)
        if isinstance(value, dict)
        for key, inner in value.items()
        if isinstance(inner, (dict, list, set)) and not inner
    ]


def _walk(value: Any, is_gone: Callable[[str], bool], path: str, seen: set[int]) -> Iterator[str]:
    if isinstance(value, str) and is_gone(value):
        yield path
    if isinstance(value, _ATOMS) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _walk(key, is_gone, f"{path}{{{key!r}}}", seen)
            yield from _walk(inner, is_gone, f"{path}[{key!r}]", seen)
    elif isinstance(value, (list, tuple, AbstractSet)):
        for inner in value:
            yield from _walk(inner, is_gone, f"{path}[]", seen)
    elif (module := type(value).__module__).startswith("accelkit.") and module not in _BOUNDED:
        for name, inner in _attributes(value):
            if (module, name) in _BOUNDED_ATTRIBUTES:
                continue
            yield from _walk(inner, is_gone, f"{path}.{name}", seen)


def _attributes(value: object) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    slots = (name for each in type(value).__mro__ for name in getattr(each, "__slots__", ()))
    fields = getattr(type(value), "__struct_fields__", ())
    yield from ((name, getattr(value, name)) for name in dict.fromkeys((*slots, *fields)) if hasattr(value, name))
