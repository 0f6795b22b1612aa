"""Implementations of Waiter for kube-schedulers that the kubelet does not run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

import msgspec

from accelkit.errors import ServiceError
from accelkit.scheduler.host.host import Host
from accelkit.scheduler.switch.record import compute_sha256

DEADLINE_SECONDS: Final = 120.0
POLL_SECONDS: Final = 1.0
LOG_LINES: Final = 15


class _State(msgspec.Struct):
    ready: bool = False
    config_sha256: str | None = None
    error: str | None = None


_state_file = msgspec.json.Decoder(_State)


@dataclass(frozen=True)
class StateFile:
    """Waiter for a kube-scheduler whose configuration is reported in a JSON file, as in the embedded cluster.

    Attributes:
        path: the path of the file, which contains `ready`, `config_sha256` and, after a failure, `error`.
        timeout_seconds: the timeout of each wait.
    """

    path: str
    timeout_seconds: float = DEADLINE_SECONDS

    def check(self, host: Host, text: str | None) -> None:
        """Verify that kube-scheduler is running; see Waiter."""
        try:
            self.wait(host, text, None)
        except ServiceError as exc:
            raise ServiceError(
                f"kube-scheduler is not ready, so its configuration was not changed: {exc.message}",
                next_step=f"check {self.path}",
            ) from exc

    def restart(self, host: Host) -> None:
        """Do nothing, because the program that runs kube-scheduler watches the file."""

    def wait(self, host: Host, text: str | None, marker: str | None) -> None:  # noqa: ARG002 - the digest is sufficient
        """Wait until kube-scheduler runs with this text; see Waiter."""
        desired, deadline = compute_sha256((text or "").encode()), time.monotonic() + self.timeout_seconds
        while True:
            state = self._state(host)
            if state.config_sha256 == desired:
                if state.ready:
                    return
                if state.error:
                    raise ServiceError(f"kube-scheduler is not running with its configuration: {state.error}")
            if time.monotonic() > deadline:
                raise ServiceError(
                    f"kube-scheduler is not running with its configuration after {self.timeout_seconds:.0f} s"
                )
            time.sleep(POLL_SECONDS)

    def _state(self, host: Host) -> _State:
        try:
            return _state_file.decode(host.read(self.path) or b"{}")
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # The file is incomplete while it is being written.
            return _State()


@dataclass(frozen=True)
class SystemdService:
    """Waiter for a systemd service.

    Attributes:
        unit: the name of the service.
        embedded: whether kube-scheduler is part of the unit's own process, as in k3s and RKE2.
        timeout_seconds: the timeout of each wait.
    """

    unit: str = "kube-scheduler.service"
    embedded: bool = False
    timeout_seconds: float = DEADLINE_SECONDS

    def check(self, host: Host, text: str | None) -> None:  # noqa: ARG002 - only the running service can be checked
        """Verify that the service is running; see Waiter."""
        if problem := self._problem(host, None):
            raise ServiceError(
                f"{problem}, so its options were not changed", next_step=f"run `systemctl status {self.unit}`"
            )

    def restart(self, host: Host) -> None:
        """Make systemd reload its unit files, and restart the service."""
        # Without this command, systemd does not start a service again after several consecutive failures.
        host.run(["systemctl", "reset-failed", self.unit])
        for command in (["systemctl", "daemon-reload"], ["systemctl", "restart", self.unit]):
            status, output = host.run(command)
            if status:
                raise ServiceError(
                    f"`{' '.join(command)}` failed with {status}: {output.strip()[-500:]}{self._log(host)}"
                )

    def wait(self, host: Host, text: str | None, marker: str | None) -> None:  # noqa: ARG002 - the marker is sufficient
        """Wait until the service runs with the option `marker`; see Waiter."""
        deadline = time.monotonic() + self.timeout_seconds
        successes = 0
        while True:
            problem = self._problem(host, marker)
            # Check twice, because a process with invalid options also runs for a short time before it exits.
            successes = 0 if problem else successes + 1
            if successes > 1:
                return
            if time.monotonic() > deadline:
                raise ServiceError(f"{problem} after {self.timeout_seconds:.0f} s{self._log(host)}")
            time.sleep(POLL_SECONDS)

    def _problem(self, host: Host, marker: str | None) -> str | None:
        """Return the reason why the service is not running as desired; None if it is running as desired."""
        _, output = host.run(["systemctl", "show", "--property=ActiveState,MainPID", self.unit])
        facts = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
        if facts.get("ActiveState") != "active":
            return f"{self.unit} is {facts.get('ActiveState') or 'unknown'}"
        # A kube-scheduler that is embedded in another program does not have a separate command line.
        if marker and not self.embedded:
            words = host.read(str(PurePosixPath("/proc", facts.get("MainPID", "0"), "cmdline"))) or b""
            if marker not in words.decode(errors="replace").split("\0"):
                return f"{self.unit} runs without {marker}"
        return None

    def _log(self, host: Host) -> str:
        status, output = host.run(["journalctl", "--no-pager", f"--lines={LOG_LINES}", f"--unit={self.unit}"])
        return f"; the end of its log:\n{output.strip()}" if status == 0 and output.strip() else ""
