"""Actions on one host, selected by arguments, for the Ansible action and for `accelkit config-manager`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from accelkit.errors import ConfigurationError
from accelkit.kube.connection import Connection
from accelkit.scheduler.arguments import Spec
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry
from accelkit.scheduler.host.host import Host
from accelkit.scheduler.launch.config_file import ConfigFile
from accelkit.scheduler.launch.manifest import MANIFEST, StaticPod
from accelkit.scheduler.launch.plan import DesiredSettings, Launch, TlsCredentials
from accelkit.scheduler.launch.rancher import Rancher
from accelkit.scheduler.launch.systemd import SystemdUnit
from accelkit.scheduler.switch.mirror_pod import MirrorPod
from accelkit.scheduler.switch.survey import FileChange
from accelkit.scheduler.switch.switch import Switch, SwitchOutcome, Waiter
from accelkit.scheduler.switch.waiters import StateFile, SystemdService

_SERVICES: Final = {"k3s": "k3s.service", "rke2": "rke2-server.service"}


def build_desired_settings(spec: Spec) -> DesiredSettings:
    """Return the desired settings of kube-scheduler.

    Raises:
        ConfigurationError: the extender or the Kubernetes version is missing.
    """
    if spec.extender is None or not spec.kubernetes_version:
        raise ConfigurationError("cannot configure kube-scheduler without extender and kubernetes_version")
    fields = {key: value for key, value in msgspec.structs.asdict(spec.extender).items() if key != "server_name"}
    if spec.extender.url_prefix.startswith("https://"):
        fields["enable_https"] = True
        if spec.extender.server_name:
            fields["tls_config"] = {"serverName": spec.extender.server_name}
    given = spec.credentials
    credentials = given and TlsCredentials(
        ca=given.ca.encode(), certificate=given.certificate.encode(), key=given.key.encode()
    )
    return DesiredSettings(
        extender=ExtenderEntry(**fields),
        kubernetes_version=spec.kubernetes_version,
        credentials=credentials or None,
        folder=spec.folder,
        dns_policy=spec.dns_policy,
    )


# Actions on a host, by name on the command line.
ACTIONS: Final[Mapping[str, Callable[[Switch, Spec], SwitchOutcome]]] = {
    "apply": lambda switch, spec: switch.apply(build_desired_settings(spec)),
    "check": lambda switch, spec: switch.check(build_desired_settings(spec)),
    "compare": lambda switch, spec: switch.compare(build_desired_settings(spec)),
    "remove": lambda switch, _: switch.remove(),
    "compare-removal": lambda switch, _: switch.compare_removal(),
}


def perform(action: str, spec: Spec, host: Host, connection: Connection | None) -> dict[str, Any]:
    """Run one of ACTIONS on a host; return its summary.

    Raises:
        ConfigurationError: the action is not possible with this specification or with the host's files.
        ServiceError: kube-scheduler is not running with the desired configuration.
    """
    return summarize(ACTIONS[action](build_switch(spec, host, connection), spec))


def build_switch(spec: Spec, host: Host, connection: Connection | None) -> Switch:
    """Return the switch for a host.

    Raises:
        ConfigurationError: an argument that this launch kind needs is missing.
    """
    launch, waiter = _parts(spec, host, connection)
    return Switch(
        host,
        launch,
        waiter,
        backup_dir=spec.backup_dir,
        folder=spec.folder,
        adopt_gcushare=spec.adopt_gcushare,
    )


def _parts(spec: Spec, host: Host, connection: Connection | None) -> tuple[Launch, Waiter]:
    how = spec.launch
    if how.kind == "static_pod":
        if connection is None or not spec.node:
            raise ConfigurationError("cannot configure a static pod without the node's name and a kubeconfig")
        path = how.path or MANIFEST
        return StaticPod(path), MirrorPod(connection, spec.node, path, spec.timeout)
    if how.kind == "config_file":
        if not how.path or not how.state_path:
            raise ConfigurationError(
                "cannot configure kube-scheduler by a configuration file without path and state_path"
            )
        url = spec.extender.url_prefix if spec.extender else None
        return ConfigFile(how.path, url), StateFile(how.state_path, spec.timeout)
    if how.kind == "systemd":
        unit = how.unit or "kube-scheduler.service"
        return SystemdUnit(unit, _unit_files(unit, host)), SystemdService(unit, timeout_seconds=spec.timeout)
    unit = how.unit or _SERVICES[how.kind]
    launch = Rancher(how.kind, _rancher_files(Rancher(how.kind).path, host))
    return launch, SystemdService(unit, embedded=True, timeout_seconds=spec.timeout)


def _unit_files(unit: str, host: Host) -> tuple[str, ...]:
    status, output = host.run(["systemctl", "show", "--property=FragmentPath,DropInPaths", unit])
    words = [word for line in output.splitlines() for word in line.partition("=")[2].split()]
    return () if status else tuple(word for word in words if word != SystemdUnit(unit).path)


def _rancher_files(ours: str, host: Host) -> tuple[str, ...]:
    folder = PurePosixPath(ours).parent
    names = [name for name in host.list_names(str(folder)) if name.endswith((".yaml", ".yml"))]
    files = [str(folder / name) for name in names]
    return (str(folder.with_suffix("")), *(file for file in files if file != ours))


def summarize(outcome: SwitchOutcome) -> dict[str, Any]:
    """Return an outcome as JSON-like data, with a diff for each file; private keys are masked in the diffs."""
    return {
        "changed": bool(outcome.changes),
        "restored": outcome.exact,
        "problems": list(outcome.problems),
        "diff": [_diff(change) for change in outcome.changes],
    }


def _diff(change: FileChange) -> dict[str, str]:
    def describe_content(content: bytes | None) -> str:
        if content is None:
            return ""
        text = content.decode(errors="replace")
        return "(a private key)\n" if "PRIVATE KEY" in text else text

    return {
        "before_header": change.path,
        "after_header": change.path,
        "before": describe_content(change.before),
        "after": describe_content(change.after),
    }
