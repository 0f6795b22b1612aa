"""Launch of kube-scheduler on a host: the file that controls it, and the plan for a different configuration.

For each launch kind, one file names kube-scheduler's options: a static-pod manifest, a systemd drop-in, the arguments
of k3s, or the configuration itself. A switch to accelkit's configuration is one rename of this file. All files to which
it refers are written first, under names with digests, so that old and new files do not conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from accelkit.scheduler.arguments import FOLDER
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry

# Reads a file of the host; returns None if it does not exist. A ConfigMap is `configmap:<namespace>/<name>/<key>`.
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
        extender: the entry; the plan sets its tls_config if `credentials` are set.
        kubernetes_version: the version that the API server reports, such as `v1.34.4`; it determines the configuration
            format.
        credentials: for TLS; None for plain HTTP.
        folder: folder of accelkit's files, on the host and in kube-scheduler's mount.
        dns_policy: `ClusterFirstWithHostNet` lets a static pod resolve names of Services; empty leaves it unchanged.
    """

    extender: ExtenderEntry
    kubernetes_version: str
    credentials: TlsCredentials | None = None
    folder: str = FOLDER
    dns_policy: str = ""


@dataclass(frozen=True, kw_only=True)
class PlannedFile:
    """A file of accelkit, written before the launch file. The mode has four octal digits; the owner None means root."""

    content: bytes
    mode: str = "0644"
    owner: int | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Desired files of a host.

    Attributes:
        launch_text: the text of the launch file.
        files: accelkit's other files by path on the host, which are written first.
        marker: a part of the command line of the running kube-scheduler once the plan is in force, such as
            `--config=/etc/kubernetes/accelkit/scheduler-1f0c….yaml`.
        problems: sentences about issues that need attention, such as a flag that cannot be carried over.
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

    def plan(self, current: str | None, recorded: str | None, read: Read, desired: DesiredSettings) -> Plan:
        """Return the plan.

        It is based on `unswitch(current, recorded)`, so that equal input always gives the same bytes.

        Args:
            current: the current launch file; None if it does not exist.
            recorded: its recorded original; None if nothing was recorded.
            read: reads files that the launch file refers to.
            desired: the desired settings.

        Raises:
            ConfigurationError: the file cannot be understood or edited safely, or a foreign extender binds.
        """

    def unswitch(self, current: str, recorded: str | None) -> str | None:
        """Return the launch file without accelkit's changes; None if the file must be deleted.

        Later changes by other tools stay. Options that accelkit replaced are restored from `recorded`.

        Raises:
            ConfigurationError: the file cannot be understood.
        """

    def is_switched(self, current: str) -> bool:
        """Return whether the launch file contains anything from accelkit."""
