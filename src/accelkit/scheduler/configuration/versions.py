"""Configuration formats that kube-scheduler reads in each Kubernetes version, and the format to write."""

from __future__ import annotations

import re
from typing import Final

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.component_config import GROUP

OLDEST: Final = 21
_VERSION: Final = re.compile(r"v?1\.(\d{1,3})(?:\.\d+)?(?:[-+].*)?\+?")

# For each apiVersion, the first and the last minor version that read it with --config.
_READ: Final = {
    "v1beta1": (19, 22),
    "v1beta2": (22, 27),
    "v1beta3": (23, 28),
    "v1": (25, None),
}
# For each format, the first minor version for which it is written. From this version on, the format is supported for
# the longest time, so that most cluster upgrades do not change the file.
_WRITTEN: Final = ((25, "v1"), (23, "v1beta3"), (22, "v1beta2"), (19, "v1beta1"))
_LAST_WITH_POLICY: Final = 22


def parse_minor(version: str) -> int:
    """Return the minor version of a Kubernetes version, for example 34 for `v1.34.4`.

    Raises:
        ConfigurationError: the version is invalid or too old.
    """
    match = _VERSION.fullmatch(version.strip())
    if match is None:
        raise ConfigurationError(
            f"{version!r} is not a valid Kubernetes version", next_step="write it as the API server does: v1.34.4"
        )
    minor = int(match[1])
    if minor < OLDEST:
        raise ConfigurationError(
            f"Kubernetes {version} is older than 1.{OLDEST}, the oldest supported version",
            next_step="upgrade the cluster",
        )
    return minor


def choose_written_format(minor: int) -> str:
    """Return the apiVersion for a new configuration, without its group."""
    return next(name for first, name in _WRITTEN if minor >= first)


def read_formats(minor: int) -> tuple[str, ...]:
    """Return the apiVersions that kube-scheduler reads with --config, without their group; the newest is last."""
    return tuple(name for name, (first, last) in _READ.items() if first <= minor and (last is None or minor <= last))


def reads_policy(minor: int) -> bool:
    """Return whether kube-scheduler supports the policy flags."""
    return minor <= _LAST_WITH_POLICY


def check_readable(api_version: str, minor: int) -> str:
    """Check that kube-scheduler can read a configuration; return its apiVersion without the group.

    Raises:
        ConfigurationError: kube-scheduler of this version would reject the file.
    """
    name = api_version.removeprefix(GROUP)
    known = read_formats(minor)
    if not api_version.startswith(GROUP) or name not in known:
        raise ConfigurationError(
            f"the kube-scheduler of Kubernetes 1.{minor} does not accept apiVersion {api_version!r}; it reads "
            + ", ".join(GROUP + each for each in known),
            next_step="check the configured version, or convert the file",
        )
    return name
