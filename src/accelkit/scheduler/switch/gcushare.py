"""Files that the installer of Enflame GCUShare leaves on a control-plane host, including the original manifest.

The installer writes an extender configuration next to the manifests, configures kube-scheduler to use this
configuration, and saves the original manifest as kube-scheduler.back.yaml. Adoption of such a host is based on this
original, and deletes the installer's files.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from ruamel.yaml.error import YAMLError

from accelkit.errors import ConfigurationError
from accelkit.scheduler.configuration.command_line import SOURCES, Option
from accelkit.scheduler.launch.manifest import MANIFEST, rejoin
from accelkit.scheduler.launch.name_resolution import CLUSTER_FIRST
from accelkit.scheduler.launch.plan import Read
from accelkit.scheduler.launch.pod_manifest import PodManifest
from accelkit.yaml import load_yaml

FOLDER: Final = "/etc/kubernetes"
CONFIGURATIONS: Final = (
    f"{FOLDER}/scheduler-extender-config.json",
    f"{FOLDER}/scheduler-extender-config-v1.23+.yaml",
)
BACKUP: Final = f"{FOLDER}/kube-scheduler.back.yaml"
FILES: Final = (*CONFIGURATIONS, BACKUP, f"{FOLDER}/kube-scheduler.yaml")
_URL_PART: Final = "/gcushare-scheduler"


@dataclass(frozen=True)
class Leftovers:
    """Files that GCUShare has left on a host.

    Attributes:
        original: the manifest without GCUShare's changes, which becomes the recorded original of the host.
        files: the paths to delete when kube-scheduler no longer uses them.
    """

    original: str
    files: tuple[str, ...]


def find_leftovers(current: str, read: Read, path: str = MANIFEST) -> Leftovers | None:
    """Return the files that GCUShare has left on a host; None if there are no such files.

    Args:
        current: the manifest of kube-scheduler.
        read: a function that reads files of the host.
        path: the path of the manifest, for error messages.

    Raises:
        ConfigurationError: the manifest cannot be read, or GCUShare's configuration also contains other extenders.
    """
    present = tuple(file for file in FILES if read(file) is not None)
    pod = PodManifest(current, path)
    named = [option for option in pod.list_options() if _is_of_gcushare(option, pod, read)]
    if not named:
        return Leftovers(current, present) if present else None
    backup = _backup(read)
    for holder, line in pod.list_command_lines().items():
        former = None if backup is None else backup.list_command_lines().get(holder)
        pod.set_command_line(holder, rejoin(line, former, lambda option: option in named))
    pod.take_volume(backup, _volumes(pod, backup))
    if backup is not None and pod.spec.get("dnsPolicy") == CLUSTER_FIRST != backup.spec.get("dnsPolicy"):
        pod.put_back("dnsPolicy", backup)
    if backup is not None and pod.is_equivalent_to(backup):
        return Leftovers(backup.render(), present)
    return Leftovers(pod.render(), present)


def _is_of_gcushare(option: Option, pod: PodManifest, read: Read) -> bool:
    """Return whether an option refers to GCUShare's configuration.

    Raises:
        ConfigurationError: the configuration also contains other extenders, which would be lost.
    """
    if option.name not in SOURCES or not (option.value or "").startswith("/"):
        return False
    host_path = pod.find_host_path(option.value or "")
    extenders = _extenders(read(host_path))
    ours = [url for url in extenders if _URL_PART in url]
    if host_path not in CONFIGURATIONS and not ours:
        return False
    others = sorted(set(extenders) - set(ours))
    if others:
        raise ConfigurationError(
            f"cannot adopt GCUShare: {host_path} also names the extender {others[0]}, which adoption would remove",
            next_step="remove GCUShare's own entry from the file, and disable adoption; other entries are then merged",
        )
    return True


def _extenders(content: bytes | None) -> list[str]:
    try:
        document: Any = load_yaml(content or b"")
    except YAMLError:
        return []
    entries = document.get("extenders") if isinstance(document, dict) else None
    return [str(entry.get("urlPrefix")) for entry in entries or [] if isinstance(entry, dict)]


def _backup(read: Read) -> PodManifest | None:
    """Return the manifest that GCUShare's installer saved; None if it cannot be used as the original."""
    content = read(BACKUP)
    if content is None:
        return None
    try:
        backup = PodManifest(content.decode(), BACKUP)
    except (ConfigurationError, UnicodeDecodeError):
        return None
    return None if any(option.value in CONFIGURATIONS for option in backup.list_options()) else backup


def _volumes(pod: PodManifest, backup: PodManifest | None) -> Collection[str]:
    """Return the names of the volumes that were added to kube-scheduler's pod for GCUShare's files."""
    before = {each.get("name") for each in (backup.spec.get("volumes") or [] if backup else [])}
    names = set()
    for volume in pod.spec.get("volumes") or []:
        path = (volume.get("hostPath") or {}).get("path")
        holds = path and any(PurePosixPath(file).is_relative_to(path) for file in CONFIGURATIONS)
        if path in CONFIGURATIONS or (holds and backup is not None):
            names.add(str(volume.get("name")))
    return names - before
