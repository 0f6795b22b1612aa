"""Catalogue and loader for plug-ins that installed Python distributions declare in their metadata.

Plug-in code does not run when plug-ins are listed. A plug-in is imported only when it is used, so a broken plug-in
affects only services that use it.
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

# Plug-in names are used on command lines, in inventories and as file names.
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_OURS: Final = "accelkit"


class Plugin(msgspec.Struct, frozen=True):
    """An entry point in one of accelkit's groups.

    Attributes:
        group: the entry point group, such as `accelkit.policies`.
        name: the name that is used in options and variables.
        reference: the entry point's object, in the form `package.module:attribute`.
        distribution: the Python distribution that contains the plug-in.
        version: the version of the distribution.
    """

    group: str
    name: str
    reference: str
    distribution: str
    version: str

    @property
    def kind(self) -> str:
        """The kind of plug-in, for messages."""
        return KINDS[self.group]

    @property
    def origin(self) -> str:
        """The name and version of the distribution."""
        return f"{self.distribution} {self.version}"

    def build_error(self, problem: str) -> PluginError:
        """Return an error that reports a problem with the plug-in."""
        return PluginError(
            f"the {self.kind} {self.name} of {self.origin} {problem}",
            next_step=f"install a release of {self.distribution} that supports interface {INTERFACE} of accelkit "
            f"{__version__}, or uninstall it",
        )

    def load(self) -> object:
        """Import the entry point's object and return it.

        Raises:
            PluginError: the object cannot be imported or does not support this version of the interface.
        """
        if not _NAME.fullmatch(self.name):
            raise self.build_error("has an invalid name: use lower-case letters, digits, dots and hyphens")
        point = EntryPoint(self.name, self.reference, self.group)
        if point.pattern.match(self.reference) is None:
            raise self.build_error(f"refers to {self.reference!r}, which is not a module or an attribute of a module")
        with self._reporting_errors():
            module = import_module(point.module)
            version = getattr(module, VARIABLE, None)
        if version != INTERFACE:
            made = "does not declare its interface" if version is None else f"was written for interface {version!r}"
            raise self.build_error(f"{made}; {point.module} must set {VARIABLE} = {INTERFACE}")
        with self._reporting_errors():
            found: object = point.load()
        return found

    @contextmanager
    def _reporting_errors(self) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as exc:
            raise self.build_error(f"cannot be loaded: {type(exc).__name__}: {exc}") from exc


@cache
def list_plugins() -> tuple[Plugin, ...]:
    """Return the plug-ins from all installed Python distributions, sorted by group, name and distribution."""
    found: dict[str, list[Plugin]] = {}
    for distribution in distributions():
        plugins = _read(distribution)
        if plugins:
            # If a distribution is installed twice, Python imports the first copy in its search path.
            found.setdefault(re.sub(r"[-_.]+", "-", plugins[0].distribution).lower(), plugins)
    groups = list(KINDS)
    every = (plugin for plugins in found.values() for plugin in plugins)
    return tuple(sorted(every, key=lambda each: (groups.index(each.group), each.name, each.distribution)))


def list_plugin_names(group: str) -> list[str]:
    """Return the names of the plug-ins in a group, sorted and without duplicates."""
    return sorted({plugin.name for plugin in list_plugins() if plugin.group == group})


def find_plugin(group: str, name: str, own: Collection[str]) -> Plugin | None:
    """Return the plug-in with this name; None if no other Python distribution provides such a plug-in.

    Args:
        group: one of the entry point groups of the interface.
        name: the requested name.
        own: the names that accelkit defines.

    Raises:
        PluginError: several distributions define this name, or a distribution uses a name that accelkit defines.
    """
    candidates = [plugin for plugin in list_plugins() if (plugin.group, plugin.name) == (group, name)]
    owners = [*([f"{_OURS} {__version__}"] if name in own else []), *(plugin.origin for plugin in candidates)]
    if candidates and len(owners) > 1:
        raise PluginError(
            f"the {KINDS[group]} name {name} is ambiguous: it is defined in {' and in '.join(owners)}",
            next_step=f"uninstall {' or '.join(dict.fromkeys(plugin.distribution for plugin in candidates))}",
        )
    return candidates[0] if candidates else None


def describe_plugins(used: Mapping[str, Iterable[str]]) -> list[str]:
    """Return descriptions, such as `policy tight of acme 1.0`, of the plug-ins with the given names in each group."""
    names = {group: set(names) for group, names in used.items()}
    found = (plugin for plugin in list_plugins() if plugin.name in names.get(plugin.group, ()))
    return [f"{plugin.kind} {plugin.name} of {plugin.origin}" for plugin in found]


def _read(distribution: Distribution) -> list[Plugin]:
    # Ignore damaged distributions, because they may not be related to accelkit.
    try:
        points = [point for point in distribution.entry_points if point.group in KINDS]
        if not points:
            return []
        name, version = str(distribution.metadata["Name"]), str(distribution.version)
        return [Plugin(point.group, point.name, point.value, name, version) for point in points]
    except Exception as exc:  # noqa: BLE001 - a damaged distribution must not hide the plug-ins of other distributions
        log.warning("cannot read the entry points of %s: %s", getattr(distribution, "_path", "a distribution"), exc)
        return []
