"""Launch of kube-scheduler on a host: the file that controls the launch, and the plan for a different configuration.

For each launch kind, one file contains kube-scheduler's options: a static pod manifest, a systemd drop-in, the
arguments of k3s, or the configuration itself. A switch to accelkit's configuration is one rename of this file. All
files that it refers to are written first. Their names contain digests, so that old and new files do not conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from accelkit.scheduler.arguments import FOLDER
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry

# Function that reads a file of the host; it returns None if the file does not exist. The path of a ConfigMap is
# `configmap:<namespace>/<name>/<key>`.
Read = Callable[[str], bytes | None]


@dataclass(frozen=True, kw_only=True)
class TlsCredentials:
    """PEM files for mutual TLS between kube-scheduler and the extender."""

    ca: bytes
    certificate: bytes
    key: bytes


@dataclass(frozen=True, kw_only=True)
class DesiredSettings:
    """Desired settings of a host's kube-scheduler.

    Attributes:
        extender: the entry of the extender; the plan sets the entry's tls_config if `credentials` are set.
        kubernetes_version: the version that the API server reports, such as `v1.34.4`; it determines the configuration
            format.
        credentials: the credentials for TLS; None for plain HTTP.
        folder: the folder of accelkit's files, on the host and in kube-scheduler's container.
        dns_policy: the dnsPolicy of a static pod; `ClusterFirstWithHostNet` makes Service names resolvable. Empty for
            no change.
    """

    extender: ExtenderEntry
    kubernetes_version: str
    credentials: TlsCredentials | None = None
    folder: str = FOLDER
    dns_policy: str = ""


@dataclass(frozen=True, kw_only=True)
class PlannedFile:
    """One of accelkit's files, written before the launch file; `mode` has four octal digits, owner None means root."""

    content: bytes
    mode: str = "0644"
    owner: int | None = None


@dataclass(frozen=True, kw_only=True)
class LaunchPlan:
    """Desired content of a host's files.

    Attributes:
        launch_text: the text of the launch file.
        files: accelkit's other files by path on the host, which are written first.
        marker: the part of kube-scheduler's command line that identifies the new configuration, such as
            `--config=/etc/kubernetes/accelkit/scheduler-1f0c….yaml`.
        problems: messages about issues that need attention, such as a flag that the configuration cannot replace.
    """

    launch_text: str
    files: Mapping[str, PlannedFile]
    marker: str
    problems: tuple[str, ...] = ()


class Launch(Protocol):
    """A launch kind of kube-scheduler. All methods are pure functions."""

    @property
    def path(self) -> str:
        """The launch file on the host."""

    def plan(self, current: str | None, recorded: str | None, read: Read, desired: DesiredSettings) -> LaunchPlan:
        """Return the plan.

        The plan is based on `unswitch(current, recorded)`, so that equal input always results in the same bytes.

        Args:
            current: the content of the current launch file; None if the file does not exist.
            recorded: the recorded original content of the launch file; None if nothing was recorded.
            read: a function that reads files that the launch file refers to.
            desired: the desired settings.

        Raises:
            ConfigurationError: the file cannot be parsed or edited safely, or another extender binds.
        """

    def unswitch(self, current: str, recorded: str | None) -> str | None:
        """Return the launch file without accelkit's changes; None if the file must be deleted.

        Later changes by other tools are preserved. Options that accelkit replaced are restored from `recorded`.

        Raises:
            ConfigurationError: the file cannot be parsed.
        """

    def is_switched(self, current: str) -> bool:
        """Return whether the launch file contains any of accelkit's changes."""
