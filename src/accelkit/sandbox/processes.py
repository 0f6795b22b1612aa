"""Child processes, which are started with separate logs, watched, and stopped with their sessions.

A process is identified by its PID and its start time, because the kernel reuses PIDs, and signals must reach only the
sandbox's processes.

The module does not use psutil, because the sandbox needs only a few reads of /proc, and every host would have to
install psutil.
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

# Loaded at import, because little is safe between fork and exec.
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
    # The command in parentheses may contain spaces, so the fields are counted after it.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else Identity(pid, int(fields[19]))


def find_sandbox_processes(root: Path) -> list[Identity]:
    """Return the processes with this sandbox's root in their environment, without this process and its ancestors.

    A shell that has the variable and runs `accelkit sandbox down` does not belong to the sandbox.
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
            # Identified again, because the environment may be that of a later process with the same PID.
            if identity is not None and wanted in variables and identify(identity.pid) == identity:
                found.append(identity)
    return found


def end_all(processes: Sequence[Identity], *, patience_seconds: float) -> None:
    """Terminate processes, wait, and kill those that do not exit."""
    for number, patience in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, _KILL_SECONDS)):
        for process in processes:
            send(process, number)
        deadline = time.monotonic() + patience
        while any(identify(process.pid) == process for process in processes) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)


def send(process: Identity, number: signal.Signals) -> None:
    """Send a signal to a process. It has no effect after the process exited, even if its PID is reused."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # The descriptor refers to one process. If the identity matches now, the signal reaches the right process.
        if identify(process.pid) == process:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def read_tail(path: Path, lines: int = _TAIL_LINES) -> str:
    """Return the last lines of a log; empty if it does not exist."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


class Child:
    """A child of the supervisor, with its output in a log.

    Args:
        name: its name in logs and messages.
        command: the command to run.
        log: the file of its output, which each start truncates.
        environ: its complete environment.
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
        """The process ID while the process is running, otherwise None."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether it was started and has not exited."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> int:
        """Start the process; return its process ID.

        Raises:
            SandboxError: the executable cannot be run.
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
                raise SandboxError(f"{self._command[0]} cannot be run: {exc.strerror}") from exc
        self._identity = identify(self._process.pid)
        return self._process.pid

    async def wait(self) -> int:
        """Wait until the process exits; return its exit code.

        Raises:
            SandboxError: it was never started.
        """
        if self._process is None:
            raise SandboxError(f"{self.name} was not started")
        return await self._process.wait()

    async def wait_until_ready(self, probe: Callable[[], Awaitable[bool]], *, seconds: float) -> None:
        """Wait until `probe` succeeds.

        Raises:
            SandboxError: the process exited, or was not ready in time.
        """
        deadline = time.monotonic() + seconds
        while True:
            ready = await probe()
            # Checked after the probe, because another process may respond on a port on which this one could not listen.
            if not self.running:
                raise SandboxError(f"{self.name} exited while starting:\n{read_tail(self.log)}\nits log is {self.log}")
            if ready:
                return
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"{self.name} was not ready in {seconds:.0f} s:\n{read_tail(self.log)}\nits log is {self.log}"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self, *, patience_seconds: float = 10.0) -> None:
        """Stop the process: SIGTERM, then SIGKILL to its whole session after `patience_seconds`.

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
                raise SandboxError(f"{self.name} ({process.pid}) does not exit after SIGKILL") from exc


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
    # A killed supervisor must not leave an API server running.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # The parent was killed before prctl, which then has no effect.
        os._exit(1)
