"""Child processes, each with its own log and session.

A process is identified by its PID and start time, because the kernel reuses PIDs, and signals must reach only the
sandbox's processes.

The module reads /proc directly instead of using psutil, because it reads only a few files, and psutil would be an
additional dependency on every host.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from accelkit.errors import SandboxError
from accelkit.sandbox.layout import ROOT_VARIABLE

# Loaded at import, because few operations are safe between fork and exec.
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.1
_KILL_SECONDS = 5.0
_TAIL_LINES = 12


@dataclass(frozen=True)
class Identity:
    """A process: `started` is field 22 of /proc/<pid>/stat, in clock ticks since boot."""

    pid: int
    started: int


def identify(pid: int) -> Identity | None:
    """Return the identity of a running process; None if it does not exist or is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command in parentheses may contain spaces, so count the fields after it.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else Identity(pid, int(fields[19]))


def find_sandbox_processes(root: Path) -> list[Identity]:
    """Return the processes with this sandbox's root in their environment, except this process and its ancestors.

    The ancestors are excluded because a shell that has the variable set and runs `accelkit sandbox down` does not
    belong to the sandbox.
    """
    wanted = os.fsencode(f"{ROOT_VARIABLE}={root}")
    lineage = _trace_ancestors(os.getpid())
    found: list[Identity] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in lineage:
            continue
        identity = identify(int(entry.name))
        with suppress(OSError):
            variables = (entry / "environ").read_bytes().split(b"\0")
            # Identify the process again, because the environment may belong to a later process with the same PID.
            if identity is not None and wanted in variables and identify(identity.pid) == identity:
                found.append(identity)
    return found


def end_all(processes: Sequence[Identity], *, patience_seconds: float) -> None:
    """Send SIGTERM to processes, wait for them, and kill those that do not exit."""
    for number, patience in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, _KILL_SECONDS)):
        for process in processes:
            send(process, number)
        deadline = time.monotonic() + patience
        while any(identify(process.pid) == process for process in processes) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)


def send(process: Identity, number: signal.Signals) -> None:
    """Send a signal to a process. Do nothing if the process has exited, even if its PID was reused."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # The descriptor always refers to the same process. If the identity matches, it is the right process.
        if identify(process.pid) == process:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def read_tail(path: Path, lines: int = _TAIL_LINES) -> str:
    """Return the last lines of a log; empty if the log does not exist."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


class Child:
    """A child process of the supervisor, with its output in a log.

    Args:
        name: the name of the process in logs and messages.
        command: the command to run.
        log: the file for the output, which is truncated at each start.
        environ: the complete environment of the process.
    """

    def __init__(self, name: str, command: Sequence[str], log: Path, environ: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        self._command = list(command)
        self._environ = dict(environ)
        self._process: asyncio.subprocess.Process | None = None
        self._identity: Identity | None = None

    @property
    def pid(self) -> int | None:
        """The process ID if the process is running, otherwise None."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether the process was started and has not exited."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> int:
        """Start the process; return its process ID.

        Raises:
            SandboxError: the executable cannot be started.
        """
        with self.log.open("wb") as output:
            try:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=self._environ,
                    start_new_session=True,
                    preexec_fn=partial(_exit_with_parent, os.getpid()),
                )
            except OSError as exc:
                raise SandboxError(f"cannot start {self._command[0]}: {exc.strerror}") from exc
        self._identity = identify(self._process.pid)
        return self._process.pid

    async def wait(self) -> int:
        """Wait until the process exits; return its exit code.

        Raises:
            SandboxError: the process was not started.
        """
        if self._process is None:
            raise SandboxError(f"{self.name} was not started")
        return await self._process.wait()

    async def wait_until_ready(self, probe: Callable[[], Awaitable[bool]], *, seconds: float) -> None:
        """Wait until `probe` succeeds.

        Raises:
            SandboxError: the process exited, or was not ready within `seconds`.
        """
        deadline = time.monotonic() + seconds
        while True:
            ready = await probe()
            # Check this after the probe, because another process may occupy the port and respond to the probe.
            if not self.running:
                raise SandboxError(f"{self.name} exited during startup:\n{read_tail(self.log)}\nThe log is {self.log}")
            if ready:
                return
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"{self.name} was not ready in {seconds:.0f} s:\n{read_tail(self.log)}\nThe log is {self.log}"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self, *, patience_seconds: float = 10.0) -> None:
        """Send SIGTERM to the process, and after `patience_seconds`, SIGKILL to its whole session.

        Raises:
            SandboxError: the process does not exit after SIGKILL.
        """
        process, identity = self._process, self._identity
        if process is None or process.returncode is not None:
            return
        if identity is not None:
            send(identity, signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), patience_seconds)
        except TimeoutError:
            if identity is not None and identify(identity.pid) == identity:
                with suppress(ProcessLookupError):
                    os.killpg(identity.pid, signal.SIGKILL)
            try:
                await asyncio.wait_for(process.wait(), _KILL_SECONDS)
            except TimeoutError as exc:
                raise SandboxError(f"cannot stop {self.name} ({process.pid}): it did not exit after SIGKILL") from exc


def _trace_ancestors(pid: int) -> set[int]:
    found = {pid}
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
        found.add(pid)
    return found


def _exit_with_parent(parent: int) -> None:
    # Exit with the parent, because a killed supervisor must not leave an API server running.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # The parent was killed before prctl, so prctl has no effect.
        os._exit(1)
