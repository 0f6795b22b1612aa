"""Profiles: a vendor as data. A new vendor is a YAML file in `data/profiles`, not code.

Facts of a card have ordered sources; the first that knows wins. `environment` is patterns with `{ids}` (identities of
the granted cards, comma-separated), `{uuids}` (the same as the vendor's own tools know them), `{indices}` (the node's
own numbering), `{minors}` (the driver's) and `{ordinals}` (0, 1… within the container); a variable that needs what is
not known is left out. `card_nodes` is patterns with `{index}`, `{minor}` and `{render}`; a card that lacks the number
cannot be given to a container. `labels` is patterns with `{count}`, `{model}`, `{memory_mib}` and `{memory_gib}` of the
smallest card, `{numbers}` (`0.1.2`), `{names}` (`card0.card1`, as many as one label takes) and `{numa}` (`0-0.1_1-2`).
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from string import Formatter
from typing import Literal

import msgspec
from ruamel.yaml import YAML

from accelkit.errors import ProfileError
from accelkit.vendors.fact_sources import Source

_ENVIRONMENT_FIELDS = frozenset({"ids", "uuids", "indices", "minors", "ordinals"})
_LABEL_FIELDS = frozenset({"count", "model", "memory_mib", "memory_gib", "numbers", "names", "numa"})
_NODE_FIELDS = frozenset({"index", "minor", "render"})


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
    runtime_annotations: tuple[str, ...] = ()
    plugin_resources: tuple[str, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        """Refuse patterns that nothing could fill in."""
        _check(self.environment.values(), _ENVIRONMENT_FIELDS)
        _check(self.card_nodes, _NODE_FIELDS)
        _check(self.labels.values(), _LABEL_FIELDS)
        _check(self.container_limits, frozenset({"container"}))


@cache
def load_profiles() -> dict[str, Profile]:
    """Read all profiles, by vendor name.

    Raises:
        ProfileError: a file is wrong.
    """
    folder = resources.files("accelkit.vendors") / "data" / "profiles"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {name: parse_profile(name, file.read_text()) for file in files if (name := file.name.removesuffix(".yaml"))}


def parse_profile(name: str, text: str) -> Profile:
    """Read one profile from YAML.

    Raises:
        ProfileError: it is wrong.
    """
    try:
        document = YAML(typ="safe", pure=True).load(text)
        return msgspec.convert({**document, "name": name}, Profile)
    except msgspec.ValidationError as exc:
        raise ProfileError(f"profile {name} is wrong: {exc}") from exc


def list_host_services() -> frozenset[str]:
    """Return the programs of all vendors' drivers that run on the host and keep cards open."""
    return frozenset(name for profile in load_profiles().values() for name in profile.host_services)


def list_presence_labels() -> frozenset[str]:
    """Return the node labels by which any profile's cards are known."""
    return frozenset(label for profile in load_profiles().values() for label in profile.presence_labels)


def list_runtime_variables() -> tuple[str, ...]:
    """Return the variables by which containers name cards to any vendor's container runtime, sorted."""
    return tuple(sorted({name for profile in load_profiles().values() for name in profile.runtime_variables}))


def list_runtime_annotations() -> tuple[str, ...]:
    """Return how annotations of pods begin by which containers name cards to a container runtime, sorted."""
    return tuple(sorted({start for profile in load_profiles().values() for start in profile.runtime_annotations}))


def is_plugin_resource(name: str) -> bool:
    """Tell whether other device plugins give any vendor's cards, or parts of them, by this extended resource."""
    return any(fnmatchcase(name, each) for profile in load_profiles().values() for each in profile.plugin_resources)


def _check(patterns: Iterable[str], known: frozenset[str]) -> None:
    for pattern in patterns:
        if unknown := {field for _, field, _, _ in Formatter().parse(pattern) if field is not None} - known:
            raise ValueError(
                f"{pattern!r} needs {', '.join(sorted(unknown))}, and only {', '.join(sorted(known))} are known"
            )
