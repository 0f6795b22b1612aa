"""How kube-scheduler is started on a host: the one file that decides, and how to point it at another configuration.

Whatever starts kube-scheduler, one file names its options: a static-pod manifest, a systemd drop-in, the arguments of
k3s, or the configuration itself. Switching the scheduler to our configuration is one rename of that file; everything it
refers to is written before, under names made of digests, so that the old and the new one stand side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from accelkit.scheduler.arguments import FOLDER
from accelkit.scheduler.configuration.extender_entry import Extender

# Reads a file of the host, None where there is none. A ConfigMap is read as `configmap:<namespace>/<name>/<key>`.
Read = Callable[[str], bytes | None]


@dataclass(frozen=True, kw_only=True)
class TlsCredentials:
    """PEM files by which kube-scheduler and extender know each other."""

    ca: bytes
    certificate: bytes
    key: bytes


@dataclass(frozen=True, kw_only=True)
class DesiredSettings:
    """What a host's kube-scheduler shall be told.

    Attributes:
        extender: the entry; its tls_config is filled in by the plan where `credentials` are given.
        kubernetes_version: as the API server says it, `v1.34.4`; decides the format of the configuration.
        credentials: for TLS; None for plain HTTP.
        folder: where our files lie on the host, and in kube-scheduler's mount.
        dns_policy: `ClusterFirstWithHostNet` lets a static pod resolve names of Services; empty: left as it is.
    """

    extender: Extender
    kubernetes_version: str
    credentials: TlsCredentials | None = None
    folder: str = FOLDER
    dns_policy: str = ""


@dataclass(frozen=True, kw_only=True)
class PlannedFile:
    """A file of ours, written before the launch file. Mode as four octal digits; owner None: root."""

    content: bytes
    mode: str = "0644"
    owner: int | None = None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a host becomes.

    Attributes:
        launch_text: the launch file.
        files: our other files by path on the host, written first.
        marker: what the running kube-scheduler's command line contains once the plan is in force, as
            `--config=/etc/kubernetes/accelkit/scheduler-1f0c….yaml`.
        problems: sentences about what works but deserves notice, as a flag that cannot be carried.
    """

    launch_text: str
    files: Mapping[str, PlannedFile]
    marker: str
    problems: tuple[str, ...] = ()


class Launch(Protocol):
    """One way of starting kube-scheduler. Everything here is a pure function of texts."""

    @property
    def path(self) -> str:
        """The launch file on the host."""

    def plan(self, current: str | None, recorded: str | None, read: Read, wanted: DesiredSettings) -> Plan:
        """Return the plan.

        Planned from `unswitch(current, recorded)`, so that the same input gives the same bytes, again and again.

        Args:
            current: the launch file as it is; None where absent.
            recorded: its recorded original, None where nothing was recorded.
            read: for what the launch file refers to.
            wanted: what shall be.

        Raises:
            ConfigurationError: the file cannot be understood or edited safely, or a foreign extender binds.
        """

    def unswitch(self, current: str, recorded: str | None) -> str | None:
        """Return the launch file without what is ours, None where it then must not exist.

        What others changed since stays. Options of ours that took the place of others' are turned back to `recorded`.

        Raises:
            ConfigurationError: the file cannot be understood.
        """

    def is_switched(self, current: str) -> bool:
        """Return whether anything of ours is in the launch file."""
