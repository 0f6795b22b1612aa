"""Profiles: a vendor as data. A new vendor is a YAML file beside this module, not code.

`environment` is patterns with `{ids}` (identities of the granted cards, comma-separated) and `{indices}`; `card_nodes`
is patterns with `{index}` (the node's own numbering) and `{minor}` (the driver's).
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec
from ruamel.yaml import YAML

from accelkit.errors import ProfileError


class FileDiscovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="file"):
    """Cards are listed in a JSON file, `path` relative to the host's root."""

    path: str


class Facts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of `key: value` lines that the driver keeps per card, and the keys that we read."""

    path: str
    identity: str
    minor: str
    model: str


class PciDiscovery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="pci"):
    """Cards are PCI devices of a vendor (four hex digits) with one of the classes (first four hex digits)."""

    vendor: str
    classes: tuple[str, ...]
    facts: Facts
    memory_mib: dict[str, int]


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A vendor.

    Attributes:
        presence_labels: node labels that say, as Node Feature Discovery or the vendor's tools write them, that a node
            has such cards.
        environment: what a container is told.
        card_nodes: device nodes of each granted card.
        node_nodes: device nodes that every container with a card needs, where they exist.
    """

    presence_labels: tuple[str, ...]
    discovery: FileDiscovery | PciDiscovery
    environment: dict[str, str]
    card_nodes: tuple[str, ...]
    node_nodes: tuple[str, ...]
    name: str = ""


@cache
def load_profiles() -> dict[str, Profile]:
    """Read all profiles, by vendor name.

    Raises:
        ProfileError: a file is wrong.
    """
    folder = resources.files("accelkit.vendors") / "data" / "profiles"
    profiles: dict[str, Profile] = {}
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        name = file.name.removesuffix(".yaml")
        try:
            document = YAML(typ="safe", pure=True).load(file.read_text())
            profiles[name] = msgspec.convert({**document, "name": name}, Profile)
        except msgspec.ValidationError as exc:
            raise ProfileError(f"profile {name} is wrong: {exc}") from exc
    return profiles


def presence_labels() -> frozenset[str]:
    """Return the node labels by which any profile's cards are known."""
    return frozenset(label for profile in load_profiles().values() for label in profile.presence_labels)
