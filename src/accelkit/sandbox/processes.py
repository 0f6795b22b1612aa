"""Child processes, each of which has its own log and session.

A process is identified by its PID and start time, because the kernel reuses PIDs, and signals must be sent only to
processes of the sandbox.

The module reads /proc without psutil, because it reads only a few files, and psutil would be an additional dependency
on every host.
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

# Load the library at import, because few operations are safe between fork and exec.
_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.1
_KILL_SECONDS = 5.0
_TAIL_LINES = 12


@dataclass(frozen=True)
class Identity:
    """The identity of a process. `started` is field 22 of /proc/<pid>/stat, in clock ticks since boot."""

    pid: int
    started: int


def identify(pid: int) -> Identity | None:
    """Return the identity of a running process; None if it does not exist or is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command in parentheses may contain spaces, so use only the fields that follow it.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else Identity(pid, int(fields[19]))


def find_sandbox_processes(root: Path) -> list[Identity]:
    """Return the processes whose environment contains this sandbox's root, except this process and its ancestors.

    The ancestors are excluded because a shell that has set the variable and runs `accelkit sandbox down` does not
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
            # Identify the process again, because the environment may belong to a newer process with the same PID.
            if identity is not None and wanted in variables and identify(identity.pid) == identity:
                found.append(identity)
    return found


def end_all(processes: Sequence[Identity], *, patience_seconds: float) -> None:
    """Send SIGTERM to processes, wait until they exit, and send SIGKILL to processes that do not exit."""
    for number, patience in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, _KILL_SECONDS)):
        for process in processes:
            send(process, number)
        deadline = time.monotonic() + patience
        while any(identify(process.pid) == process for process in processes) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)


def send(process: Identity, number: signal.Signals) -> None:
    """Send a signal to a process. Do nothing if the process has exited, even if its PID has been reused."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # The descriptor always refers to the same process. If the identity matches, it is the requested process.
        if identify(process.pid) == process:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def read_tail(path: Path, lines: int = _TAIL_LINES) -> str:
    """Return the last lines of a log; empty if the log cannot be read."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


class Child:
    """A child process of the supervisor. Its output is written to a log.

    Args:
        name: the name of the process in logs and messages.
        command: the command to run.
        log: the file for the output. It is truncated when the process is started.
        environ: all environment variables of the process.
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
        """The process ID if the process is running; otherwise None."""
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
            # Check this after the probe, because a different process may use the port and respond to the probe.
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
        """Send SIGTERM to the process. If it does not exit within `patience_seconds`, send SIGKILL to its session.

        Raises:
            SandboxError: the process did not exit after SIGKILL.
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
    # Exit together with the parent process, because the API server must not continue to run if the supervisor is
    # killed.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # The parent process was killed before prctl was called, so prctl has no effect.
        os._exit(1)
