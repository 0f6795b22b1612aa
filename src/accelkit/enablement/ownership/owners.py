"""Table of owners, with the marks, DaemonSets and drivers that identify each owner, from `data/owners.yaml`."""

from __future__ import annotations

from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from accelkit.errors import ProfileError
from accelkit.vendors.profiles import load_usable_profiles
from accelkit.yaml import load_yaml

# Placeholder for marks and owners whose vendor is unknown. They apply to cards of every vendor.
ANY_VENDOR: Final = ""


class HeldPart(StrEnum):
    """Parts of a node that an owner may own: the driver, or the cards."""

    DRIVER = "driver"
    CARDS = "cards"


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A label or annotation of a node.

    Attributes:
        key: a pattern for `fnmatch`.
        holds: whether the mark indicates the owner of the driver or of the cards.
        vendor: the vendor of the cards; None for the owner's vendor.
        absent: patterns for values that indicate that the owner is absent.
    """

    key: str
    holds: HeldPart
    vendor: str | None = None
    absent: tuple[str, ...] = ()

    def stands(self, value: str) -> bool:
        """Return whether a label with this value indicates that the owner is present."""
        return not any(fnmatchcase(value, each) for each in self.absent)


class DaemonSetMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The labels that identify an owner's DaemonSet; the DaemonSet or its pods must have all of these labels."""

    labels: dict[str, str]
    holds: HeldPart


class Owner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A possible owner of the cards of a node.

    Attributes:
        name: the machine-readable name.
        title: the name in messages, as a phrase for a sentence.
        vendor: the vendor of the owner's cards; ANY_VENDOR if the marks specify the vendor, or the vendor is unknown.
        stays: whether the owner's marks remain on nodes after the owner is removed.
        marks: labels and annotations of nodes; if several patterns match a key, the first pattern applies.
        drivers: the drivers in the owner's ResourceSlices.
        daemon_sets: the labels of the owner's DaemonSets.
        release: the instruction for releasing a node from this owner.
    """

    name: str
    title: str
    release: str
    vendor: str = ANY_VENDOR
    stays: bool = False
    marks: tuple[Mark, ...] = ()
    drivers: tuple[str, ...] = ()
    daemon_sets: tuple[DaemonSetMark, ...] = ()

    def find_mark(self, key: str) -> Mark | None:
        """Return the mark for the key of a node label or annotation; None if the key is not a mark of this owner."""
        return next((each for each in self.marks if fnmatchcase(key, each.key)), None)


@cache
def load_owners() -> tuple[Owner, ...]:
    """Return the table that accelkit ships.

    Raises:
        ProfileError: the table is invalid.
    """
    return parse_owners((resources.files(__package__) / "data" / "owners.yaml").read_text())


def parse_owners(text: str) -> tuple[Owner, ...]:
    """Return the table from a YAML text.

    Raises:
        ProfileError: the table is invalid.
    """
    try:
        found = msgspec.convert(load_yaml(text), tuple[Owner, ...])
    except msgspec.ValidationError as exc:
        raise ProfileError(f"cannot read the table of owners: {exc}") from exc
    if len({each.name for each in found}) != len(found):
        raise ProfileError("cannot read the table of owners: two owners have the same name")
    return found


@cache
def find_vendor_of(resource: str) -> str | None:
    """Return the vendor whose cards are offered by other plugins as this extended resource; otherwise, return None."""
    profiles = load_usable_profiles().profiles
    named = (name for name, each in profiles.items() if any(fnmatchcase(resource, p) for p in each.plugin_resources))
    return next(named, None)


def build_unknown_plugin(vendor: str) -> Owner:
    """Return the owner that represents a device plugin for which only the resource is known."""
    return Owner(
        name=f"{vendor}-cards",
        title=f"a device plugin for {vendor} cards",
        release="exclude the node from its DaemonSet, with its nodeSelector or with the label that its operator reads",
        vendor=vendor,
    )
