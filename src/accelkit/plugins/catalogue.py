"""Finds plug-ins by the metadata of the installed distributions, and loads the one that is asked for.

To find one runs nothing of it. It is imported when it is needed, so that one that is broken harms nobody else.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Final

import msgspec

from accelkit import __version__
from accelkit.errors import PluginError
from accelkit.plugins.interface import INTERFACE, KINDS, VARIABLE

log = logging.getLogger(__name__)

# Names become words of command lines and of inventories, and names of files.
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_OURS: Final = "accelkit"


class Plugin(msgspec.Struct, frozen=True):
    """An entry point in one of our groups.

    Attributes:
        group: as `accelkit.policies`.
        name: by which it is asked for.
        reference: what it names, as `package.module:attribute`.
        distribution: who has it.
        version: that distribution's.
    """

    group: str
    name: str
    reference: str
    distribution: str
    version: str

    @property
    def kind(self) -> str:
        """What it is, for people to read."""
        return KINDS[self.group]

    @property
    def origin(self) -> str:
        """The distribution and its version."""
        return f"{self.distribution} {self.version}"

    def build_error(self, problem: str) -> PluginError:
        """Return the error that says what is wrong with it."""
        return PluginError(
            f"the {self.kind} {self.name} of {self.origin} {problem}",
            next_step=f"install a release of {self.distribution} that is made for interface {INTERFACE} of accelkit "
            f"{__version__}, or uninstall it",
        )

    def load(self) -> object:
        """Import what it names.

        Raises:
            PluginError: it cannot be imported, or is made for another version of the interface.
        """
        if not _NAME.fullmatch(self.name):
            raise self.build_error("has a name that is not made of small letters, digits, dots and hyphens")
        point = EntryPoint(self.name, self.reference, self.group)
        if point.pattern.match(self.reference) is None:
            raise self.build_error(f"names {self.reference!r}, which is neither a module nor something in one")
        with self._telling():
            module = import_module(point.module)
            version = getattr(module, VARIABLE, None)
        if version != INTERFACE:
            made = "says nothing of the interface it is made for" if version is None else f"is made for {version!r}"
            raise self.build_error(f"{made}; {point.module} has to set {VARIABLE} = {INTERFACE}")
        with self._telling():
            found: object = point.load()
        return found

    @contextmanager
    def _telling(self) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as exc:
            raise self.build_error(f"cannot be loaded: {type(exc).__name__}: {exc}") from exc


@cache
def list_plugins() -> tuple[Plugin, ...]:
    """Return the plug-ins of all installed distributions, in the order of groups, names and distributions."""
    found: dict[str, list[Plugin]] = {}
    for distribution in distributions():
        plugins = _read(distribution)
        if plugins:
            # Of two copies of a distribution Python imports the one that is found first.
            found.setdefault(re.sub(r"[-_.]+", "-", plugins[0].distribution).lower(), plugins)
    groups = list(KINDS)
    every = (plugin for plugins in found.values() for plugin in plugins)
    return tuple(sorted(every, key=lambda each: (groups.index(each.group), each.name, each.distribution)))


def list_plugin_names(group: str) -> list[str]:
    """Return the names of a group's plug-ins, sorted, each once."""
    return sorted({plugin.name for plugin in list_plugins() if plugin.group == group})


def find_plugin(group: str, name: str, own: Collection[str]) -> Plugin | None:
    """Return the plug-in of this name; None where no other distribution has one.

    Args:
        group: one of those of the interface.
        name: what is asked for.
        own: the names that accelkit has itself.

    Raises:
        PluginError: several distributions have one of this name, or one has what accelkit has itself.
    """
    claims = [plugin for plugin in list_plugins() if (plugin.group, plugin.name) == (group, name)]
    owners = [*([f"{_OURS} {__version__}"] if name in own else []), *(plugin.origin for plugin in claims)]
    if claims and len(owners) > 1:
        raise PluginError(
            f"the {KINDS[group]} {name} is in {' and in '.join(owners)}, and nobody says which is meant",
            next_step=f"uninstall {' or '.join(dict.fromkeys(plugin.distribution for plugin in claims))}",
        )
    return claims[0] if claims else None


def describe_plugins(used: Mapping[str, Iterable[str]]) -> list[str]:
    """Return which of the names that are used, by group, are plug-ins: as `policy tight of acme 1.0`."""
    names = {group: set(names) for group, names in used.items()}
    found = (plugin for plugin in list_plugins() if plugin.name in names.get(plugin.group, ()))
    return [f"{plugin.kind} {plugin.name} of {plugin.origin}" for plugin in found]


def _read(distribution: Distribution) -> list[Plugin]:
    # Distributions that have nothing to do with us are installed beside us, and any of them may be damaged.
    try:
        points = [point for point in distribution.entry_points if point.group in KINDS]
        if not points:
            return []
        name, version = str(distribution.metadata["Name"]), str(distribution.version)
        return [Plugin(point.group, point.name, point.value, name, version) for point in points]
    except Exception as exc:  # noqa: BLE001 - whatever it is, others are not to suffer
        log.warning("the entry points of %s cannot be read: %s", getattr(distribution, "_path", "a distribution"), exc)
        return []
