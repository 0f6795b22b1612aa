"""A host in a folder, whose kube-scheduler is a flag, and on which every operation can be the last one."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scheduler_manifests import kubeadm_manifest

from accelkit.errors import ServiceError
from accelkit.scheduler.configuration.extender_entry import ExtenderEntry
from accelkit.scheduler.host.host import LocalHost
from accelkit.scheduler.launch.manifest import MANIFEST, StaticPod
from accelkit.scheduler.launch.plan import DesiredSettings, TlsCredentials
from accelkit.scheduler.switch.switch import Switch

MUTATIONS = ("write", "make_folder", "remove", "remove_empty_folder")


class Killed(BaseException):
    """The process ends here: nothing may clean up."""


class DyingHost:
    """Passes everything on, and dies before the n-th change, or after it."""

    def __init__(self, host: LocalHost, at: int, *, after: bool = False) -> None:
        self._host, self._left, self._after = host, at, after

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._host, name)
        return self._counted(operation) if name in MUTATIONS else operation

    def _counted(self, operation: Callable[..., object]) -> Callable[..., None]:
        def run(*args: object, **keywords: object) -> None:
            self._left -= 1
            if self._left < 0 and not self._after:
                raise Killed
            operation(*args, **keywords)
            if self._left < 0:
                raise Killed

        return run


class Runner:
    """Stands for whoever runs kube-scheduler: it runs with every launch file but those that it is told to refuse.

    With `dies` the process that waits for such a one ends instead of seeing it.
    """

    def __init__(self, *, refuses: Callable[[str], object] = lambda _: False, dies: bool = False) -> None:
        self.refuses, self.dies = refuses, dies
        self.restarts = 0

    def check(self, host: object, text: str | None) -> None:
        self.wait(host, text, None)

    def restart(self, _host: object) -> None:
        self.restarts += 1

    def wait(self, _host: object, text: str | None, _marker: str | None) -> None:
        if text is not None and self.refuses(text):
            raise Killed if self.dies else ServiceError("kube-scheduler does not run")


class Restarted:
    """Stands for a service manager: what runs is the launch file as it was at the last restart."""

    def __init__(self, root: Path, *, refuses: Callable[[str | None], bool] = lambda _: False) -> None:
        self._manifest = root / MANIFEST.removeprefix("/")
        self.refuses = refuses
        self.restart(None)

    def check(self, _host: object, _text: str | None) -> None:
        """Whatever runs is fine."""

    def restart(self, _host: object) -> None:
        self.running = self._manifest.read_text()

    def wait(self, _host: object, text: str | None, _marker: str | None) -> None:
        if text != self.running or self.refuses(text):
            raise ServiceError("kube-scheduler runs with something else")


def owner() -> tuple[int, int]:
    return os.getuid(), os.getgid()


def make_host(root: Path, manifest: str | None = None) -> LocalHost:
    """A control-plane node as kubeadm leaves it."""
    place = root / MANIFEST.removeprefix("/")
    place.parent.mkdir(parents=True)
    place.write_text(kubeadm_manifest(34) if manifest is None else manifest)
    place.chmod(0o600)
    (root / "etc/kubernetes/scheduler.conf").write_text("a kubeconfig")
    (root / "var/lib").mkdir(parents=True)
    return LocalHost(root)


def desired(url: str = "https://10.96.0.20:32766", key: bytes = b"key") -> DesiredSettings:
    return DesiredSettings(
        extender=ExtenderEntry(url_prefix=url, enable_https=True),
        kubernetes_version="v1.34.4",
        credentials=TlsCredentials(ca=b"ca", certificate=b"certificate", key=key),
    )


def switch(host: Any, runner: Any = None, **options: Any) -> Switch:
    return Switch(host, StaticPod(), runner or Runner(), **options)


def tree(root: Path) -> dict[str, tuple[int, int, int, int, str]]:
    """Everything below a folder: kind, mode, owner, and content by its digest."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        facts = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid, content)
        found[str(path.relative_to(root))] = facts
    return found
