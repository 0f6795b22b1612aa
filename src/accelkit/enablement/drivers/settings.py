"""Settings of a vendor's driver, and the driver image that the settings specify for a kernel."""

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
# Characters that image tags must not contain. Kernel releases may contain plus signs and tildes, for example.
_NOT_IN_TAGS: Final = re.compile(r"[^A-Za-z0-9_.-]")
KERNEL_VARIABLES: Final = frozenset(
    {
        *("KERNEL_FULL_VERSION", "KERNEL_XYZ", "KERNEL_X", "KERNEL_Y", "KERNEL_Z"),
        *("OS", "OS_ID", "OS_VERSION", "VENDOR", "DRIVER_VERSION"),
    }
)


class KernelMapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The driver image for kernels that equal `literal` or match `regexp`."""

    image: str
    literal: str = ""
    regexp: str = ""

    def __post_init__(self) -> None:
        """Reject a mapping that matches all kernels or no kernel."""
        if bool(self.literal) == bool(self.regexp):
            raise ValueError("set either literal or regexp")
        if self.regexp:
            try:
                re2.compile(self.regexp)
            except re2.error as exc:
                raise ValueError(f"regexp {shorten(self.regexp)!r} is not a valid regular expression") from exc

    def matches(self, kernel: str) -> bool:
        """Return whether the mapping applies to a kernel. As in KMM, `regexp` may match a part of the release."""
        return kernel == self.literal if self.literal else re2.search(self.regexp, kernel) is not None


class Build(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a Job that builds a missing image.

    Attributes:
        containerfile: the text of the Containerfile, with build arguments KERNEL_FULL_VERSION and DRIVER_VERSION.
        builder: the builder image, for example kaniko or buildah.
        args: arguments of the builder, which may contain `${IMAGE}`, `${CONTAINERFILE}`, `${CONTEXT}` and the kernel
            variables.
        push_secret: name of a Secret of type kubernetes.io/dockerconfigjson that is used to push the image.
        entitlement_secret: name of a Secret for entitled builds, mounted at /etc/pki/entitlement.
        node_selector: labels of the nodes on which the Job may run; the kubelets of these nodes can read the Secrets.
            Empty for any node.
    """

    containerfile: str
    builder: str
    args: tuple[str, ...]
    push_secret: str = ""
    entitlement_secret: str = ""
    node_selector: dict[str, str] = {}


class Mount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder of the node that a driver's container mounts at the same path; `propagation` is the mountPropagation."""

    path: str
    read_only: bool = False
    propagation: str = ""

    def __post_init__(self) -> None:
        """Reject values that Kubernetes rejects."""
        if not self.path.startswith("/") or self.propagation not in {"", "Bidirectional", "HostToContainer", "None"}:
            raise ValueError("set an absolute path, and set propagation to Bidirectional, HostToContainer or None")


class VendorDriver(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The driver of a vendor.

    Attributes:
        version: the version of the driver, as the vendor's cards report it; empty for any version.
        image: the image for kernels without a mapping; may contain variables such as `${KERNEL_FULL_VERSION}`; empty
            for none.
        kernel_mappings: the mappings; the first match applies.
        packages: packages for hosts, in the syntax of the hosts' package manager; may contain the same variables.
        module: the kernel module that KMM loads, for example `nvidia` or `amdgpu`.
        build: the settings for building missing images; None if a missing image is an error.
        command: the command of the container; empty for the command of its image.
        args: the arguments of the container.
        env: the environment variables of the container.
        mounts: folders of the node to mount, in addition to the default folders.
        ready: a command in the container that succeeds once the driver is loaded; empty to check that `module` is
            loaded.
        in_tree_module: the module that KMM unloads before it loads `module`, for example `nouveau`.
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
        """Return the image pattern for a kernel; empty if there is no pattern."""
        found = next((each.image for each in self.kernel_mappings if each.matches(kernel)), "")
        return found or self.image


def read_drivers(given: Mapping[str, object]) -> dict[str, VendorDriver]:
    """Return the drivers by vendor from the setting `accelkit_driver_vendors`.

    Raises:
        ConfigurationError: the setting is invalid; the message contains the invalid field.
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
            f"cannot read {shorten(vendor)} in accelkit_driver_vendors: {exc}",
            next_step="see docs/how-to/drivers.md for the valid keys",
        ) from exc


def check_pattern(pattern: str) -> None:
    """Reject a pattern with unknown variables.

    Raises:
        ConfigurationError: the pattern contains an unknown variable.
    """
    if unknown := [name for name in _VARIABLE.findall(pattern) if name not in KERNEL_VARIABLES]:
        raise ConfigurationError(
            f"cannot use the pattern {shorten(pattern)!r}: unknown variable ${{{shorten(unknown[0])}}}",
            next_step=f"use {list_some(f'${{{each}}}' for each in sorted(KERNEL_VARIABLES))} (docs/how-to/drivers.md)",
        )


def list_variables(kernel: str, system: System, vendor: str, version: str) -> dict[str, str]:
    """Return the values of the pattern variables; a value is empty if it is derived from an invalid release."""
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
    """Replace the variables in a pattern with their values; leave unknown variables unchanged."""
    return _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), pattern)


def needs_system(pattern: str) -> bool:
    """Return whether a pattern contains a variable for the operating system."""
    return any(name in {"OS", "OS_ID", "OS_VERSION"} for name in _VARIABLE.findall(pattern))
