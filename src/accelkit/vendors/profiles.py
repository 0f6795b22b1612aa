"""Profiles: vendors as data. A new vendor is a YAML file in `data/profiles` or in a plug-in, and needs no code.

Facts of a card have ordered sources; the first source with a value counts.

- `environment` has patterns with `{ids}` (identities of the granted cards, separated by commas), `{uuids}` (their
  identities in the vendor's own tools), `{indices}` (the node's numbers), `{minors}` (the driver's numbers) and
  `{ordinals}` (0, 1… within the container). A variable with an unknown value is omitted.
- `card_nodes` has patterns with `{index}`, `{minor}` and `{render}`. A card without the number cannot be assigned
  to a container.
- `labels` has patterns with `{count}`, `{model}`, `{memory_mib}` and `{memory_gib}` of the smallest card, `{numbers}`
  (`0.1.2`), `{names}` (`card0.card1`, as many as fit into one label) and `{numa}` (`0-0.1_1-2`).
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
    """Discovery of cards from a JSON file; `path` is relative to the host's root."""

    path: str


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Model of all cards with one device ID, with the memory in MiB if all of them have the same amount."""

    name: str
    memory_mib: int | None = None


class PciDiscovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="pci"):
    """Discovery of cards as PCI devices of a vendor (four hex digits) with one of the classes (first four hex digits).

    Attributes:
        drivers: kernel drivers with which containers can use a card; any driver if empty.
        management_drivers: kernel drivers of functions with which the host manages a card and which are not cards.
        facts: the file of `key: value` lines that the driver has for each card, relative to the host's root, with
            `{bdf}`.
        identity: sources of the permanent name that the vendor's own tools use.
        minor: sources of the driver's number; `render` contains the sources of the number of the card's render node.
        memory: sources of the memory in bytes.
        models: models by PCI device ID.
        reserved_mib: the memory that driver and firmware reserve, if no source states it.
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
    """A vendor.

    Attributes:
        presence_labels: node labels with which Node Feature Discovery or the vendor's tools mark nodes with such cards.
        environment: variables of a container.
        card_nodes: device nodes of each granted card.
        node_nodes: device nodes that every container with a card needs, if they exist.
        nodes_file: the vendor's own file on the host that renames the device nodes, relative to the root.
        cdi: the kind of the vendor's CDI devices, which are used if the host has a specification of it.
        labels: the vendor's own node labels, with which users select nodes. A label with an unknown value is omitted.
        libraries: the vendor's libraries with which its tools detect cards, by their names below a host's library
            folders.
        enforcement: the mechanisms that can limit the memory of a share if the host has them: NVIDIA's memory limits of
            cgroups (`nvml`), its MPS, the kernel's dmem.
        container_limits: keys of pod annotations with `{container}`. The vendor's plug-in of the container runtime
            reads from them the memory that a container may take on each of its cards, such as `4096Mi`.
        host_services: programs of the driver that run on the host and keep cards open.
        runtime_variables: variables with which a container names its cards to a hook of the vendor's container runtime.
        runtime_defaults: variables with which that hook gives a container all cards, each with the variable that
            prevents this wherever it is set.
        runtime_annotations: prefixes of pod annotations that a plug-in of the container runtime reads.
        plugin_resources: extended resources with which device plugins of other systems give the cards or parts of them.
            One that ends with `*` stands for all resources with this prefix.
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
        """Reject patterns with unknown fields."""
        _check(self.environment.values(), _ENVIRONMENT_FIELDS)
        _check(self.card_nodes, _NODE_FIELDS)
        _check(self.labels.values(), _LABEL_FIELDS)
        _check(self.container_limits, frozenset({"container"}))


prepare(Profile)


class UsableProfiles(msgspec.Struct, frozen=True):
    """The profiles that can be used.

    Attributes:
        profiles: the profiles by vendor name.
        faults: the errors of profiles from other distributions that cannot be used, by vendor name.
    """

    profiles: Mapping[str, Profile]
    faults: Mapping[str, PluginError]

    def require(self, vendors: Iterable[str]) -> None:
        """Check that the profiles of these vendors can be used, so that their cards do not count as absent.

        Raises:
            PluginError: a profile cannot be used.
        """
        for vendor in vendors:
            if vendor in self.faults and vendor not in self.profiles:
                raise self.faults[vendor]


def load_profiles() -> Mapping[str, Profile]:
    """Read all profiles, by vendor name, from accelkit and from other distributions.

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
    """Read the profiles as `load_profiles` does, but omit those that cannot be used and log each of them once.

    Programs that serve the cards of a node use this, so that they continue if a plug-in is broken. accelkit's own
    profiles are always included.

    Raises:
        ProfileError: a file of accelkit is invalid.
    """
    found = find_profiles()
    for fault in found.faults.values():
        log.error("%s", fault)
    return found


@cache
def find_profiles() -> UsableProfiles:
    """Read the profiles as `load_usable_profiles` does, but without logging."""
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
            raise plugin.build_error(f"takes PCI devices ({', '.join(both)}) that the profile {other.name} takes too")
    return profile


def _list_same_devices(one: Profile, other: Profile) -> list[str]:
    """Return the classes of PCI devices that two profiles take, such as `10de:0302`; no card may be found twice."""
    a, b = one.discovery, other.discovery
    if not isinstance(a, PciDiscovery) or not isinstance(b, PciDiscovery) or a.vendor != b.vendor:
        return []
    return [f"{a.vendor}:{each}" for each in a.classes if each in b.classes]


def parse_profile(name: str, text: str) -> Profile:
    """Read one profile from YAML.

    Raises:
        ProfileError: the profile is invalid.
    """
    try:
        document = load_yaml(text)
        return msgspec.convert({**document, "name": name}, Profile)
    except msgspec.ValidationError as exc:
        raise ProfileError(f"profile {name} is invalid: {exc}") from exc


def list_host_services() -> frozenset[str]:
    """Return the programs of all vendors' drivers that run on the host and keep cards open."""
    return frozenset(name for profile in load_usable_profiles().profiles.values() for name in profile.host_services)


def list_presence_labels() -> frozenset[str]:
    """Return the node labels that mark nodes with cards of any profile."""
    return frozenset(label for profile in load_profiles().values() for label in profile.presence_labels)


def list_runtime_variables() -> tuple[str, ...]:
    """Return the variables with which containers name cards to any vendor's container runtime, sorted."""
    return tuple(sorted({name for profile in load_profiles().values() for name in profile.runtime_variables}))


def find_runtime_defaults() -> dict[str, str]:
    """Return the variables with which a vendor's runtime gives all cards, each with the variable that prevents it."""
    return {name: other for profile in load_profiles().values() for name, other in profile.runtime_defaults.items()}


def list_runtime_annotations() -> tuple[str, ...]:
    """Return the prefixes of pod annotations with which containers name cards to a container runtime, sorted."""
    return tuple(sorted({start for profile in load_profiles().values() for start in profile.runtime_annotations}))


def list_container_limits() -> tuple[str, ...]:
    """Return the pod annotations, with `{container}`, that name the amounts of containers to a runtime, sorted."""
    return tuple(sorted({key for profile in load_profiles().values() for key in profile.container_limits}))


def is_plugin_resource(name: str) -> bool:
    """Return whether device plugins of other systems give cards, or parts of them, with this extended resource.

    Profiles that cannot be used do not count, so that pods are still counted if one distribution is broken.
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
