"""Report on all plug-ins. Each plug-in is loaded in the same way as in a service, and problems are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from accelkit.errors import AccelkitError
from accelkit.node.discovery.card_sources import list_card_source_names, load_card_source
from accelkit.plugins.catalogue import Plugin, list_plugins
from accelkit.plugins.interface import DIALECTS, MEMORY_SOURCES, POLICIES, PROFILES
from accelkit.plugins.policies import load_policy
from accelkit.vendors.dialects import load_dialect
from accelkit.vendors.profiles import PciDiscovery, find_profiles


class PluginView(msgspec.Struct, frozen=True):
    """An installed plug-in.

    Attributes:
        problem: the reason why the plug-in is invalid; empty if it is valid.
        next_step: the action that resolves the problem.
    """

    group: str
    name: str
    distribution: str
    version: str
    problem: str = ""
    next_step: str = ""


def view_plugins() -> list[PluginView]:
    """Load all plug-ins from other Python distributions, and return a view of each plug-in."""
    return [_view(plugin) for plugin in list_plugins()]


def _view(plugin: Plugin) -> PluginView:
    view = PluginView(plugin.group, plugin.name, plugin.distribution, plugin.version)
    try:
        _CHECKS[plugin.group](plugin)
    except AccelkitError as exc:
        return msgspec.structs.replace(view, problem=exc.message, next_step=exc.next_step)
    return view


def _check_profile(plugin: Plugin) -> None:
    found = find_profiles()
    if fault := found.faults.get(plugin.name):
        raise fault
    discovery = found.profiles[plugin.name].discovery
    if not isinstance(discovery, PciDiscovery):
        return
    facts = (discovery.identity, discovery.model, discovery.minor, discovery.render, discovery.memory)
    named = {source.name for sources in facts for source in sources}
    if unknown := named.difference(list_card_source_names()):
        raise plugin.build_error(f"refers to memory sources that are not installed: {', '.join(sorted(unknown))}")


_CHECKS: Final[Mapping[str, Callable[[Plugin], object]]] = MappingProxyType(
    {
        PROFILES: _check_profile,
        DIALECTS: lambda plugin: load_dialect(plugin.name),
        POLICIES: lambda plugin: load_policy(plugin.name),
        MEMORY_SOURCES: lambda plugin: load_card_source(plugin.name),
    }
)
