"""The table of owners: by which marks, DaemonSets and drivers each is known. It is data, in `data/owners.yaml`."""

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

# Whose cards a mark stands for where nobody knows: every vendor's.
ANY_VENDOR: Final = ""


class Hold(StrEnum):
    """What of a node somebody holds, the lesser first."""

    DRIVER = "driver"
    CARDS = "cards"


class Mark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A label or annotation of a node.

    Attributes:
        key: a pattern, as of `fnmatch`.
        holds: what it stands for.
        vendor: whose cards; that of the owner where it is not said.
        absent: patterns of values that say that the owner is not there.
    """

    key: str
    holds: Hold
    vendor: str | None = None
    absent: tuple[str, ...] = ()

    def stands(self, value: str) -> bool:
        """Return whether a label with this value says that the owner is there."""
        return not any(fnmatchcase(value, each) for each in self.absent)


class DaemonSetMark(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labels of a DaemonSet or of its pods, all of which it has."""

    labels: dict[str, str]
    holds: Hold


class Owner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who may own the cards of a node.

    Attributes:
        name: for programs.
        title: for people, as part of a sentence.
        vendor: whose cards it owns; ANY_VENDOR where its marks say so, or nobody knows.
        stays: whether its marks stay on nodes when it is gone.
        marks: labels and annotations of nodes; of several patterns that fit a key, the first counts.
        drivers: of its ResourceSlices.
        daemon_sets: what its DaemonSets are known by.
        release: how a person takes a node from it.
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
        """Return what a key of a node's labels or annotations stands for; None where it is none of this owner's."""
        return next((each for each in self.marks if fnmatchcase(key, each.key)), None)


@cache
def load_owners() -> tuple[Owner, ...]:
    """Read the table that accelkit ships.

    Raises:
        ProfileError: it is wrong.
    """
    return parse_owners((resources.files(__package__) / "data" / "owners.yaml").read_text())


def parse_owners(text: str) -> tuple[Owner, ...]:
    """Read a table from YAML.

    Raises:
        ProfileError: it is wrong.
    """
    try:
        found = msgspec.convert(load_yaml(text), tuple[Owner, ...])
    except msgspec.ValidationError as exc:
        raise ProfileError(f"the table of owners is wrong: {exc}") from exc
    if len({each.name for each in found}) != len(found):
        raise ProfileError("the table of owners is wrong: two owners have one name")
    return found


@cache
def find_vendor_of(resource: str) -> str | None:
    """Return whose cards device plugins of others give by an extended resource; None where it stands for no card."""
    profiles = load_usable_profiles().profiles
    named = (name for name, each in profiles.items() if any(fnmatchcase(resource, p) for p in each.plugin_resources))
    return next(named, None)


def build_unknown_plugin(vendor: str) -> Owner:
    """Return the owner that stands for a device plugin of which only its resource is seen."""
    return Owner(
        name=f"{vendor}-cards",
        title=f"a device plugin for cards of {vendor}",
        release="take the node out of its DaemonSet, by its nodeSelector or the label that its operator reads",
        vendor=vendor,
    )
