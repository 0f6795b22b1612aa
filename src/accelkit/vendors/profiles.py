"""Profiles, which describe vendors as data. A YAML file in `data/profiles` or in a plug-in adds a vendor without code.

The sources of a fact about a card are ordered. The first source with a value is used.

- `environment` contains patterns with `{ids}` (the IDs of the assigned cards, separated by commas), `{uuids}` (their
  IDs in the vendor's tools), `{indices}` (the numbers from the node agent), `{minors}` (the numbers from the driver)
  and `{ordinals}` (0, 1… within the container). A variable with an unknown value is omitted.
- `card_nodes` contains patterns with `{index}`, `{minor}` and `{render}`. A card without a required number cannot be
  assigned to a container.
- `labels` contains patterns with `{count}`, `{model}`, `{memory_mib}` and `{memory_gib}` of the smallest card,
  `{numbers}` (`0.1.2`), `{names}` (`card0.card1`, as many as fit into one label) and `{numa}` (`0-0.1_1-2`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from string import Formatter
from types import MappingProxyType
from typing import Final, Literal

import msgspec

from accelkit.decoding import prepare
from accelkit.errors import PluginError, ProfileError
from accelkit.plugins.catalogue import Plugin, find_plugin, list_plugin_names
from accelkit.plugins.documents import read_document
from accelkit.plugins.interface import PROFILES
from accelkit.vendors.fact_sources import Source
from accelkit.yaml import load_yaml

log = logging.getLogger(__name__)

_ENVIRONMENT_FIELDS = frozenset({"ids", "uuids", "indices", "minors", "ordinals"})
_LABEL_FIELDS = frozenset({"count", "model", "memory_mib", "memory_gib", "numbers", "names", "numa"})
_NODE_FIELDS = frozenset({"index", "minor", "render"})
_FOLDER: Final = resources.files("accelkit.vendors") / "data" / "profiles"


class FileDiscovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="file"):
    """Discovery of cards from a JSON file. `path` is relative to the host's root."""

    path: str


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The model of all cards with the same device ID, and the memory of these cards in MiB if it is always the same."""

    name: str
    memory_mib: int | None = None


class PciDiscovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="pci"):
    """Discovery of PCI cards by vendor ID (four hex digits) and class (first four hex digits).

    Attributes:
        drivers: the kernel drivers that allow containers to use a card. If empty, any driver is accepted.
        management_drivers: the kernel drivers of PCI functions that are not cards, but that the host uses to manage a
            card.
        facts: the driver's file of `key: value` lines for each card, relative to the host's root, with the placeholder
            `{bdf}`.
        identity: the sources of the permanent name that the vendor's tools use.
        minor: the sources of the driver's number.
        render: the sources of the number of the card's render node.
        memory: the sources of the memory in bytes.
        models: the models by PCI device ID.
        reserved_mib: the memory that the driver and firmware reserve, in MiB, which is used if no source provides it.
    """

    vendor: str
    classes: tuple[str, ...]
    drivers: tuple[str, ...] = ()
    management_drivers: tuple[str, ...] = ()
    facts: str | None = None
    identity: tuple[Source, ...] = ()
    model: tuple[Source, ...] = ()
    minor: tuple[Source, ...] = ()
    render: tuple[Source, ...] = ()
    memory: tuple[Source, ...] = ()
    models: dict[str, Model] = {}
    reserved_mib: int = 0


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The profile of a vendor.

    Attributes:
        presence_labels: the node labels that Node Feature Discovery or the vendor's tools set on nodes with its cards.
        environment: the environment variables of a container.
        card_nodes: the device nodes of each assigned card.
        node_nodes: the device nodes that every container with a card requires, if these device nodes exist.
        nodes_file: the vendor's file that renames the device nodes, relative to the host's root.
        cdi: the kind of the vendor's CDI devices, which are used if the host has a specification of this kind.
        labels: the vendor's node labels, which users need to select nodes. A label with an unknown value is omitted.
        libraries: the names of the vendor's libraries, which its tools use to detect cards, in the host's library
            folders.
        enforcement: the mechanisms that can limit the memory of a share if the host supports them: memory limits for
            cgroups in NVIDIA's driver (`nvml`), NVIDIA's MPS (`mps`), and the kernel's dmem controller (`dmem`).
        container_limits: the keys of pod annotations, with the placeholder `{container}`. The vendor's container
            runtime plug-in reads the memory that a container may use on each of its cards from these annotations, such
            as `4096Mi`.
        host_services: the driver's programs that run on the host and keep cards open.
        runtime_variables: the variables that a container can use to select its cards in the vendor's container runtime.
        runtime_defaults: the variables that cause the vendor's container runtime to expose all cards to a container,
            each with the variable that prevents this effect.
        runtime_annotations: the prefixes of pod annotations that a container runtime plug-in reads.
        plugin_resources: the extended resources through which device plugins of other systems allocate the cards or
            parts of cards. A trailing `*` matches all resources with this prefix.
    """

    presence_labels: tuple[str, ...]
    discovery: FileDiscovery | PciDiscovery
    environment: dict[str, str]
    card_nodes: tuple[str, ...]
    node_nodes: tuple[str, ...]
    nodes_file: str | None = None
    cdi: str | None = None
    labels: dict[str, str] = {}
    libraries: tuple[str, ...] = ()
    enforcement: tuple[Literal["nvml", "mps", "dmem"], ...] = ("dmem",)
    container_limits: tuple[str, ...] = ()
    host_services: tuple[str, ...] = ()
    runtime_variables: tuple[str, ...] = ()
    runtime_defaults: dict[str, str] = {}
    runtime_annotations: tuple[str, ...] = ()
    plugin_resources: tuple[str, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError if a pattern contains unknown placeholders."""
        _check(self.environment.values(), _ENVIRONMENT_FIELDS)
        _check(self.card_nodes, _NODE_FIELDS)
        _check(self.labels.values(), _LABEL_FIELDS)
        _check(self.container_limits, frozenset({"container"}))


prepare(Profile)


class UsableProfiles(msgspec.Struct, frozen=True):
    """The usable profiles, and the errors in the unusable profiles.

    Attributes:
        profiles: the usable profiles by vendor name.
        faults: the errors in unusable profiles from other distributions, by vendor name.
    """

    profiles: Mapping[str, Profile]
    faults: Mapping[str, PluginError]

    def require(self, vendors: Iterable[str]) -> None:
        """Check that the profiles of these vendors are usable, so that the vendors' cards are not treated as missing.

        Raises:
            PluginError: a profile cannot be used.
        """
        for vendor in vendors:
            if vendor in self.faults and vendor not in self.profiles:
                raise self.faults[vendor]


def load_profiles() -> Mapping[str, Profile]:
    """Return all profiles from accelkit and other distributions, by vendor name.

    Raises:
        ProfileError: a file is invalid.
        PluginError: a profile from another distribution cannot be used.
    """
    found = find_profiles()
    for fault in found.faults.values():
        raise fault
    return found.profiles


@cache
def load_usable_profiles() -> UsableProfiles:
    """Read the profiles in the same way as `load_profiles`, but omit unusable profiles and log each of them once.

    Programs that serve the cards of a node use this function, so that a broken plug-in does not stop them. The profiles
    that are part of accelkit are always included.

    Raises:
        ProfileError: a file that is part of accelkit is invalid.
    """
    found = find_profiles()
    for fault in found.faults.values():
        log.error("%s", fault)
    return found


@cache
def find_profiles() -> UsableProfiles:
    """Read the profiles in the same way as `load_usable_profiles`, but without logging."""
    found, faults = dict(_load_own()), dict[str, PluginError]()
    for name in list_plugin_names(PROFILES):
        try:
            if plugin := find_plugin(PROFILES, name, _load_own().keys()):
                found[name] = _read_plugged(plugin, found)
        except PluginError as exc:
            faults[name] = exc
    return UsableProfiles(MappingProxyType(dict(sorted(found.items()))), MappingProxyType(faults))


@cache
def _load_own() -> Mapping[str, Profile]:
    files = sorted(_FOLDER.iterdir(), key=lambda file: file.name)
    return {name: parse_profile(name, file.read_text()) for file in files if (name := file.name.removesuffix(".yaml"))}


def _read_plugged(plugin: Plugin, others: Mapping[str, Profile]) -> Profile:
    profile = read_document(plugin, Profile)
    for other in others.values():
        if both := _list_same_devices(profile, other):
            raise plugin.build_error(f"matches PCI devices ({', '.join(both)}), as the profile {other.name} does")
    return profile


def _list_same_devices(one: Profile, other: Profile) -> list[str]:
    """Return the vendor and class of PCI devices that match both profiles, such as `10de:0302`."""
    a, b = one.discovery, other.discovery
    if not isinstance(a, PciDiscovery) or not isinstance(b, PciDiscovery) or a.vendor != b.vendor:
        return []
    return [f"{a.vendor}:{each}" for each in a.classes if each in b.classes]


def parse_profile(name: str, text: str) -> Profile:
    """Parse one profile from YAML.

    Raises:
        ProfileError: the profile is invalid.
    """
    try:
        document = load_yaml(text)
        return msgspec.convert({**document, "name": name}, Profile)
    except msgspec.ValidationError as exc:
        raise ProfileError(f"profile {name} is invalid: {exc}") from exc


def list_host_services() -> frozenset[str]:
    """Return the driver services of all vendors that run on the host and keep cards open."""
    return frozenset(name for profile in load_usable_profiles().profiles.values() for name in profile.host_services)


def list_presence_labels() -> frozenset[str]:
    """Return the node labels that mark nodes with cards of any profile."""
    return frozenset(label for profile in load_profiles().values() for label in profile.presence_labels)


def list_runtime_variables() -> tuple[str, ...]:
    """Return the sorted variables that containers can use to select cards in any vendor's container runtime."""
    return tuple(sorted({name for profile in load_profiles().values() for name in profile.runtime_variables}))


def find_runtime_defaults() -> dict[str, str]:
    """Return the variables that cause a runtime to expose all cards, each with the variable that prevents it."""
    return {name: other for profile in load_profiles().values() for name, other in profile.runtime_defaults.items()}


def list_runtime_annotations() -> tuple[str, ...]:
    """Return the sorted prefixes of the pod annotations that select cards for containers in a container runtime."""
    return tuple(sorted({start for profile in load_profiles().values() for start in profile.runtime_annotations}))


def list_container_limits() -> tuple[str, ...]:
    """Return the sorted keys, with `{container}`, of pod annotations from which a runtime reads memory limits."""
    return tuple(sorted({key for profile in load_profiles().values() for key in profile.container_limits}))


def is_plugin_resource(name: str) -> bool:
    """Return whether device plugins of other systems allocate cards or parts of cards through this extended resource.

    Unusable profiles are ignored, so that pods are still counted if the profile from one distribution is broken.
    """
    profiles = load_usable_profiles().profiles.values()
    return any(fnmatchcase(name, each) for profile in profiles for each in profile.plugin_resources)


def _check(patterns: Iterable[str], known: frozenset[str]) -> None:
    for pattern in patterns:
        if unknown := {field for _, field, _, _ in Formatter().parse(pattern) if field is not None} - known:
            raise ValueError(
                f"{pattern!r} has the unknown field {', '.join(sorted(unknown))}; the fields are "
                f"{', '.join(sorted(known))}"
            )
