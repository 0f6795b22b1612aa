"""Profiles: a vendor as data. A new vendor is a YAML file in `data/profiles`, or in a plug-in, and not code.

Facts of a card have ordered sources; the first that knows wins. `environment` is patterns with `{ids}` (identities of
the granted cards, comma-separated), `{uuids}` (the same as the vendor's own tools know them), `{indices}` (the node's
own numbering), `{minors}` (the driver's) and `{ordinals}` (0, 1… within the container); a variable that needs what is
not known is left out. `card_nodes` is patterns with `{index}`, `{minor}` and `{render}`; a card that lacks the number
cannot be given to a container. `labels` is patterns with `{count}`, `{model}`, `{memory_mib}` and `{memory_gib}` of the
smallest card, `{numbers}` (`0.1.2`), `{names}` (`card0.card1`, as many as one label takes) and `{numa}` (`0-0.1_1-2`).
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
    """Cards are listed in a JSON file, `path` relative to the host's root."""

    path: str


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What every card with a device id is, memory in MiB where all of them have the same."""

    name: str
    memory_mib: int | None = None


class PciDiscovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="pci"):
    """Cards are PCI devices of a vendor (four hex digits) with one of the classes (first four hex digits).

    Attributes:
        drivers: kernel drivers with which containers can use a card; any where there are none.
        management_drivers: kernel drivers of functions by which the host manages a card, and which are no cards.
        facts: file of `key: value` lines that the driver keeps per card, relative to the host's root, with `{bdf}`.
        identity: what names a card as the vendor's own tools do, for good.
        minor: the driver's number; `render` is that of the card's render node.
        memory: bytes of memory.
        models: what is known by PCI device id.
        reserved_mib: what driver and firmware keep, where no source says.
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
        presence_labels: node labels that say, as Node Feature Discovery or the vendor's tools write them, that a node
            has such cards.
        environment: what a container is told.
        card_nodes: device nodes of each granted card.
        node_nodes: device nodes that every container with a card needs, where they exist.
        nodes_file: the vendor's own file on the host that renames the device nodes, relative to the root.
        cdi: the kind of the vendor's CDI devices, to be used where the host has a specification of it.
        labels: the vendor's own node labels, which users select nodes by; one that needs what is not known is left out.
        libraries: the vendor's libraries by which its tools know cards, by their names below a host's library folders.
        enforcement: what may hold a share to its memory where the host has it: NVIDIA's memory limits of cgroups
            (`nvml`), its MPS, the kernel's dmem.
        container_limits: keys of pod annotations with `{container}`, by which the vendor's plug-in of the container
            runtime learns what memory a container may take of each of its cards, as `4096Mi`.
        host_services: programs of the driver that run on the host and keep cards open.
        runtime_variables: what a hook of the vendor's container runtime obeys: with it a container names its cards.
        runtime_defaults: variables with which that hook gives a container all cards, each with the variable that
            prevents it wherever it is set.
        runtime_annotations: how annotations of pods begin that a plug-in of the container runtime obeys.
        plugin_resources: extended resources by which other device plugins give the cards, or parts of them; one that
            ends with `*` stands for all that begin so.
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
        """Refuse patterns that nothing could fill in."""
        _check(self.environment.values(), _ENVIRONMENT_FIELDS)
        _check(self.card_nodes, _NODE_FIELDS)
        _check(self.labels.values(), _LABEL_FIELDS)
        _check(self.container_limits, frozenset({"container"}))


prepare(Profile)


class UsableProfiles(msgspec.Struct, frozen=True):
    """The profiles that can be used.

    Attributes:
        profiles: by vendor name.
        faults: why profiles of other distributions cannot be used, by vendor name.
    """

    profiles: Mapping[str, Profile]
    faults: Mapping[str, PluginError]

    def require(self, vendors: Iterable[str]) -> None:
        """Refuse to go on where one of these vendors has a profile that cannot be used: its cards are not absent.

        Raises:
            PluginError: why it cannot be used.
        """
        for vendor in vendors:
            if vendor in self.faults and vendor not in self.profiles:
                raise self.faults[vendor]


def load_profiles() -> Mapping[str, Profile]:
    """Read all profiles, by vendor name: accelkit's own, and those of other distributions.

    Raises:
        ProfileError: a file is wrong.
        PluginError: one of another distribution cannot be used.
    """
    found = find_profiles()
    for fault in found.faults.values():
        raise fault
    return found.profiles


@cache
def load_usable_profiles() -> UsableProfiles:
    """Read the profiles as `load_profiles` does, but leave out what cannot be used, which is logged, once.

    For those who serve the cards of a node: they go on where one plug-in is broken, and accelkit's own profiles always
    count.

    Raises:
        ProfileError: a file of accelkit's own is wrong.
    """
    found = find_profiles()
    for fault in found.faults.values():
        log.error("%s", fault)
    return found


@cache
def find_profiles() -> UsableProfiles:
    """Read the profiles as `load_usable_profiles` does, and log nothing."""
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
            raise plugin.build_error(f"takes PCI devices ({', '.join(both)}) that the profile {other.name} takes, too")
    return profile


def _list_same_devices(one: Profile, other: Profile) -> list[str]:
    """Return the classes of PCI devices that two profiles take, as `10de:0302`; a card must not be found twice."""
    a, b = one.discovery, other.discovery
    if not isinstance(a, PciDiscovery) or not isinstance(b, PciDiscovery) or a.vendor != b.vendor:
        return []
    return [f"{a.vendor}:{each}" for each in a.classes if each in b.classes]


def parse_profile(name: str, text: str) -> Profile:
    """Read one profile from YAML.

    Raises:
        ProfileError: it is wrong.
    """
    try:
        document = load_yaml(text)
        return msgspec.convert({**document, "name": name}, Profile)
    except msgspec.ValidationError as exc:
        raise ProfileError(f"profile {name} is wrong: {exc}") from exc


def list_host_services() -> frozenset[str]:
    """Return the programs of all vendors' drivers that run on the host and keep cards open."""
    return frozenset(name for profile in load_usable_profiles().profiles.values() for name in profile.host_services)


def list_presence_labels() -> frozenset[str]:
    """Return the node labels by which any profile's cards are known."""
    return frozenset(label for profile in load_profiles().values() for label in profile.presence_labels)


def list_runtime_variables() -> tuple[str, ...]:
    """Return the variables by which containers name cards to any vendor's container runtime, sorted."""
    return tuple(sorted({name for profile in load_profiles().values() for name in profile.runtime_variables}))


def find_runtime_defaults() -> dict[str, str]:
    """Return the variables with which a vendor's runtime gives all cards, each with the one that prevents it."""
    return {name: other for profile in load_profiles().values() for name, other in profile.runtime_defaults.items()}


def list_runtime_annotations() -> tuple[str, ...]:
    """Return how annotations of pods begin by which containers name cards to a container runtime, sorted."""
    return tuple(sorted({start for profile in load_profiles().values() for start in profile.runtime_annotations}))


def is_plugin_resource(name: str) -> bool:
    """Tell whether other device plugins give any vendor's cards, or parts of them, by this extended resource.

    Profiles that cannot be used do not count: who counts pods goes on where one distribution is broken.
    """
    profiles = load_usable_profiles().profiles.values()
    return any(fnmatchcase(name, each) for profile in profiles for each in profile.plugin_resources)


def _check(patterns: Iterable[str], known: frozenset[str]) -> None:
    for pattern in patterns:
        if unknown := {field for _, field, _, _ in Formatter().parse(pattern) if field is not None} - known:
            raise ValueError(
                f"{pattern!r} needs {', '.join(sorted(unknown))}, and only {', '.join(sorted(known))} are known"
            )
