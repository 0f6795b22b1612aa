"""What a user sets of a vendor's driver, and which image that is for a kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec
import re2

from accelkit.enablement.drivers.systems import System
from accelkit.errors import ConfigurationError
from accelkit.texts import list_some, shorten

_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_RELEASE: Final = re.compile(r"^(\d+)\.(\d+)(?:\.(\d+))?")
# A tag of an image takes nothing else; kernels have plus signs and tildes.
_NOT_IN_TAGS: Final = re.compile(r"[^A-Za-z0-9_.-]")
KERNEL_VARIABLES: Final = frozenset(
    {
        *("KERNEL_FULL_VERSION", "KERNEL_XYZ", "KERNEL_X", "KERNEL_Y", "KERNEL_Z"),
        *("OS", "OS_ID", "OS_VERSION", "VENDOR", "DRIVER_VERSION"),
    }
)


class KernelMapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The image for some kernels: those that are `literal`, or in which `regexp` is found."""

    image: str
    literal: str = ""
    regexp: str = ""

    def __post_init__(self) -> None:
        """Refuse what would match everything or nothing."""
        if bool(self.literal) == bool(self.regexp):
            raise ValueError("give either literal or regexp")
        if self.regexp:
            try:
                re2.compile(self.regexp)
            except re2.error as exc:
                raise ValueError(f"regexp {shorten(self.regexp)!r} cannot be read") from exc

    def matches(self, kernel: str) -> bool:
        """Return whether it is for this kernel; a regexp need not match the whole of it, as KMM's."""
        return kernel == self.literal if self.literal else re2.search(self.regexp, kernel) is not None


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an image that is not there is built, by a Job.

    Attributes:
        containerfile: its text, with build arguments KERNEL_FULL_VERSION and DRIVER_VERSION.
        builder: the image that builds, as one of kaniko or buildah.
        args: of the builder; `${IMAGE}`, `${CONTAINERFILE}` and `${CONTEXT}` are filled in, beside the kernel's.
        push_secret: name of a Secret of type kubernetes.io/dockerconfigjson, for the push.
        entitlement_secret: name of a Secret with what entitled builds need, mounted at /etc/pki/entitlement.
        node_selector: labels of the nodes that build, since their kubelets may read both Secrets; empty for any node.
    """

    containerfile: str
    builder: str
    args: tuple[str, ...]
    push_secret: str = ""
    entitlement_secret: str = ""
    node_selector: dict[str, str] = {}


class Mount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder of the node in a driver's container, at the same path; `propagation` is Kubernetes' word."""

    path: str
    read_only: bool = False
    propagation: str = ""

    def __post_init__(self) -> None:
        """Refuse what Kubernetes would."""
        if not self.path.startswith("/") or self.propagation not in {"", "Bidirectional", "HostToContainer", "None"}:
            raise ValueError("give an absolute path, and Bidirectional, HostToContainer or None as propagation")


class VendorDriver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The driver of a vendor.

    Attributes:
        version: of the driver, as the vendor's cards report it; empty where any will do.
        image: of all kernels that no mapping names, with `${KERNEL_FULL_VERSION}` and the like; empty for none.
        kernel_mappings: the first that matches wins.
        packages: of hosts, as their package managers name and pin them, with the same variables.
        module: of the kernel, which KMM loads; `nvidia`, `amdgpu`….
        build: how an image is made that is not there; None where that is an error.
        command: of the container; its image's own where it is empty.
        args: of the container.
        env: of the container.
        mounts: folders of the node, beside those that every driver gets.
        ready: command in the container that succeeds once the driver is loaded; whether `module` is, without it.
        in_tree_module: what KMM unloads before, as `nouveau`.
        selector: labels of the nodes on which KMM loads the module.
    """

    version: str = ""
    image: str = ""
    kernel_mappings: tuple[KernelMapping, ...] = ()
    packages: tuple[str, ...] = ()
    module: str = ""
    build: Build | None = None
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    ready: tuple[str, ...] = ()
    in_tree_module: str = ""
    selector: dict[str, str] = {}

    def find_pattern(self, kernel: str) -> str:
        """Return the pattern of the image for a kernel; empty where there is none."""
        found = next((each.image for each in self.kernel_mappings if each.matches(kernel)), "")
        return found or self.image


def read_drivers(given: Mapping[str, object]) -> dict[str, VendorDriver]:
    """Read the setting `accelkit_driver_vendors`: drivers by vendor.

    Raises:
        ConfigurationError: it is wrong; the sentence says where.
    """
    drivers = {vendor: _read_driver(vendor, each) for vendor, each in given.items()}
    for driver in drivers.values():
        for pattern in (driver.image, *(each.image for each in driver.kernel_mappings), *driver.packages):
            check_pattern(pattern)
    return drivers


def _read_driver(vendor: str, given: object) -> VendorDriver:
    try:
        return msgspec.convert(given, VendorDriver)
    except msgspec.ValidationError as exc:
        raise ConfigurationError(
            f"{shorten(vendor)} of accelkit_driver_vendors is wrong: {exc}",
            next_step="docs/drivers.md lists what it takes",
        ) from exc


def check_pattern(pattern: str) -> None:
    """Refuse variables that nothing fills in.

    Raises:
        ConfigurationError: there is one.
    """
    if unknown := [name for name in _VARIABLE.findall(pattern) if name not in KERNEL_VARIABLES]:
        raise ConfigurationError(
            f"{shorten(pattern)!r} has ${{{shorten(unknown[0])}}}",
            next_step=f"use {list_some(f'${{{each}}}' for each in sorted(KERNEL_VARIABLES))} (docs/drivers.md)",
        )


def list_variables(kernel: str, system: System, vendor: str, version: str) -> dict[str, str]:
    """Return what the variables of patterns stand for; those of a release that cannot be read are empty."""
    found = _RELEASE.match(kernel)
    x, y, z = (found[1], found[2], found[3] or "0") if found else ("", "", "")
    return {
        "KERNEL_FULL_VERSION": _NOT_IN_TAGS.sub("_", kernel),
        "KERNEL_XYZ": f"{x}.{y}.{z}" if found else "",
        "KERNEL_X": x,
        "KERNEL_Y": y,
        "KERNEL_Z": z,
        "OS": str(system),
        "OS_ID": system.id,
        "OS_VERSION": system.version,
        "VENDOR": vendor,
        "DRIVER_VERSION": version,
    }


def fill_pattern(pattern: str, variables: Mapping[str, str]) -> str:
    """Return a pattern with its variables filled in; one that is not known stays as it is."""
    return _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), pattern)


def needs_system(pattern: str) -> bool:
    """Return whether a pattern names the operating system."""
    return any(name in {"OS", "OS_ID", "OS_VERSION"} for name in _VARIABLE.findall(pattern))
