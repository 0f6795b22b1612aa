"""Dialect loader: the resource names and messages of systems whose pods are read by accelkit.

The default dialect of accelkit is `native`. A dialect is defined by a YAML file in `data/dialects` or by a plug-in.
`accelkit.vendors.dialect` defines default messages for messages that a dialect omits.
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
    """Return the sorted names of the dialects that are part of accelkit."""
    return sorted(file.name.removesuffix(".yaml") for file in _folder().iterdir() if file.name.endswith(".yaml"))


def list_dialect_names(*, advertised: bool = False) -> list[str]:
    """Return the sorted names of all dialects from accelkit and other distributions, without loading the dialects.

    If `advertised` is true, load all dialects, and return only the names of dialects that accelkit's node agent can
    serve.
    """
    if advertised:
        return [dialect.name for dialect in load_usable_dialects() if dialect.advertised]
    return sorted({*list_own_dialect_names(), *list_plugin_names(DIALECTS)})


@cache
def load_dialect(name: str) -> Dialect:
    """Read a dialect by name.

    Raises:
        ProfileError: no dialect has this name, or its file is invalid.
        PluginError: the dialect comes from another distribution and cannot be used.
    """
    own = list_own_dialect_names()
    if plugin := find_plugin(DIALECTS, name, own):
        return read_document(plugin, Dialect)
    if name not in own:
        raise ProfileError(
            f"unknown dialect {name!r}",
            next_step=f"choose one of {', '.join(list_dialect_names())}, or install the distribution that contains it",
        )
    return load_own_dialect(name)


@cache
def load_own_dialect(name: str) -> Dialect:
    """Read a dialect that is part of accelkit, even if another distribution uses its name.

    Raises:
        ProfileError: the file of the dialect is invalid.
    """
    try:
        document = load_yaml((_folder() / f"{name}.yaml").read_text())
        return msgspec.convert({**document, "name": name}, Dialect)
    except msgspec.ValidationError as exc:
        raise ProfileError(f"dialect {name} is invalid: {exc}") from exc


def load_served_dialect(name: str) -> Dialect:
    """Read a dialect that accelkit's node agent can serve.

    Raises:
        ProfileError: no dialect has this name, its file is invalid, or a device plugin of another system serves it.
        PluginError: the dialect comes from another distribution and cannot be used.
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
    """Read all usable dialects, sorted by name. Log the unusable dialects, whose pods are not read.

    If another distribution uses the name of an accelkit dialect, accelkit's own dialect takes precedence.
    """
    found = {name: load_own_dialect(name) for name in list_own_dialect_names()}
    for name in list_plugin_names(DIALECTS):
        try:
            found[name] = load_dialect(name)
        except PluginError as exc:
            log.error("%s", exc)  # noqa: TRY400 - the message is complete; a traceback adds nothing
    return tuple(found[name] for name in sorted(found))


def list_served_dialects(advertised: Iterable[str]) -> tuple[Dialect, ...]:
    """Return the dialects in which the pods of a cluster are read by default.

    These are the dialects that accelkit's node agents can serve. A dialect whose resources can also be served by device
    plugins of other systems is included only if accelkit's agents advertise it in this cluster.

    Args:
        advertised: the value of the annotation `accelkit.io/advertised` of each node; empty if it is missing.
    """
    ours = {name for text in advertised for name in text.split(",")}
    dialects = load_dialects(list_dialect_names(advertised=True))
    return tuple(each for each in dialects if each.cards_are_ours or not ours.isdisjoint(each.resources.requestable))


def load_dialects(names: Iterable[str]) -> tuple[Dialect, ...]:
    """Read several dialects in the given order, without duplicates."""
    return tuple(load_dialect(name) for name in dict.fromkeys(names))


def list_assignment_keys() -> tuple[str, ...]:
    """Return the sorted keys of the pod annotations that schedulers and device plugins of any dialect write.

    All dialects are included, because the pods of an unused dialect are read as soon as the dialect is in use.
    """
    dialects = load_dialects(list_dialect_names())
    return tuple(sorted({ASSIGNMENT_ANNOTATION, *(key for each in dialects for key in each.assignment_keys)}))


def list_extender_paths(in_use: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the base paths of the extenders of other systems, without duplicates.

    Args:
        in_use: the names of dialects to include in addition to the dialects that are part of accelkit.
    """
    dialects = (*map(load_own_dialect, list_own_dialect_names()), *load_dialects(in_use))
    return tuple(sorted({dialect.extender_path for dialect in dialects if dialect.extender_path}))


def _folder() -> resources.abc.Traversable:
    return resources.files("accelkit.vendors") / "data" / "dialects"
