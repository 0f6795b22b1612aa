"""Reads dialects: the resource names and sentences of a system whose pods we read.

Our own is `native`. A dialect is a YAML file in `data/dialects`, or in a plug-in; texts it does not give are the common
ones below.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache
from importlib import resources

import msgspec

from accelkit.decoding import prepare
from accelkit.errors import PluginError, ProfileError
from accelkit.model.keys import ASSIGNMENT_ANNOTATION
from accelkit.plugins.catalogue import find_plugin, list_plugin_names
from accelkit.plugins.documents import read_document
from accelkit.plugins.interface import DIALECTS
from accelkit.vendors.dialect import Dialect
from accelkit.yaml import load_yaml

log = logging.getLogger(__name__)

prepare(Dialect)


def list_own_dialect_names() -> list[str]:
    """Return the names of accelkit's own dialects, sorted."""
    return sorted(file.name.removesuffix(".yaml") for file in _folder().iterdir() if file.name.endswith(".yaml"))


def list_dialect_names(*, advertised: bool = False) -> list[str]:
    """Return the names of all dialects, sorted: accelkit's own, and those of other distributions, which stay unloaded.

    With `advertised` only those that our node agent can serve, for which all are loaded.
    """
    if advertised:
        return [dialect.name for dialect in load_usable_dialects() if dialect.advertised]
    return sorted({*list_own_dialect_names(), *list_plugin_names(DIALECTS)})


@cache
def load_dialect(name: str) -> Dialect:
    """Read a dialect by name.

    Raises:
        ProfileError: there is none of that name, or its file is wrong.
        PluginError: it is another distribution's, and cannot be used.
    """
    own = list_own_dialect_names()
    if plugin := find_plugin(DIALECTS, name, own):
        return read_document(plugin, Dialect)
    if name not in own:
        raise ProfileError(
            f"there is no dialect {name!r}",
            next_step=f"choose one of {', '.join(list_dialect_names())}, or install the distribution that has it",
        )
    return load_own_dialect(name)


@cache
def load_own_dialect(name: str) -> Dialect:
    """Read one of accelkit's own dialects, whatever other distributions have under its name.

    Raises:
        ProfileError: its file is wrong.
    """
    try:
        document = load_yaml((_folder() / f"{name}.yaml").read_text())
        return msgspec.convert({**document, "name": name}, Dialect)
    except msgspec.ValidationError as exc:
        raise ProfileError(f"dialect {name} is wrong: {exc}") from exc


def load_served_dialect(name: str) -> Dialect:
    """Read a dialect that our node agent serves.

    Raises:
        ProfileError: there is none of that name, its file is wrong, or another system's device plugin serves it.
        PluginError: it is another distribution's, and cannot be used.
    """
    dialect = load_dialect(name)
    if not dialect.advertised:
        raise ProfileError(
            f"the dialect {name} is served by another system's device plugin",
            next_step=f"choose one of {', '.join(list_dialect_names(advertised=True))}",
        )
    return dialect


@cache
def load_usable_dialects() -> tuple[Dialect, ...]:
    """Read all dialects that can be used, by name; what cannot is logged, and pods that speak it are not read.

    Where another distribution has a name of ours, ours counts.
    """
    found = {name: load_own_dialect(name) for name in list_own_dialect_names()}
    for name in list_plugin_names(DIALECTS):
        try:
            found[name] = load_dialect(name)
        except PluginError as exc:
            log.error("%s", exc)  # noqa: TRY400 - it is a sentence; where it was raised says nothing more
    return tuple(found[name] for name in sorted(found))


def list_served_dialects(advertised: Iterable[str]) -> tuple[Dialect, ...]:
    """Return the dialects in which the pods of a cluster are read where nobody says which are in use.

    Those that our node agents can serve; where another device plugin may give cards by the same resources, only if ours
    do it here.

    Args:
        advertised: the annotation `accelkit.io/advertised` of each node, empty where it has none.
    """
    ours = {name for text in advertised for name in text.split(",")}
    dialects = load_dialects(list_dialect_names(advertised=True))
    return tuple(each for each in dialects if each.cards_are_ours or not ours.isdisjoint(each.resources.asking))


def load_dialects(names: Iterable[str]) -> tuple[Dialect, ...]:
    """Read several dialects, each once, in the order given."""
    return tuple(load_dialect(name) for name in dict.fromkeys(names))


def list_assignment_keys() -> tuple[str, ...]:
    """Return the annotations of pods that schedulers and device plugins of any system here write, sorted.

    A pod may speak a dialect that is not in use today, and will be read when it is.
    """
    dialects = load_dialects(list_dialect_names())
    return tuple(sorted({ASSIGNMENT_ANNOTATION, *(key for each in dialects for key in each.assignment_keys)}))


def list_extender_paths(in_use: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the paths below which the extenders of other systems answered, each once.

    Args:
        in_use: names of dialects that count beside accelkit's own.
    """
    dialects = (*map(load_own_dialect, list_own_dialect_names()), *load_dialects(in_use))
    return tuple(sorted({dialect.extender_path for dialect in dialects if dialect.extender_path}))


def _folder() -> resources.abc.Traversable:
    return resources.files("accelkit.vendors") / "data" / "dialects"
