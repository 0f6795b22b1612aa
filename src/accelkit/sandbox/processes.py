"""Child processes: each is started with a log of its own, watched, and ended with its session.

A process is identified by its pid together with its start time: pids are used again, and only our own processes are
signalled.

Why not psutil: these few reads of /proc are all that the sandbox needs of it, and every host would have to install it.
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

# Loaded here, since little is safe between fork and exec.
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
    """Return the identity of a running process, None where there is none or it is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command in parentheses may hold blanks; fields are counted after it.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else Identity(pid, int(fields[19]))


def find_sandbox_processes(root: Path) -> list[Identity]:
    """Return every process that carries this sandbox's root in its environment, save ourselves and our ancestors.

    A shell that has the variable, and runs `accelkit sandbox down`, is not of the sandbox.
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
            # Asked again, so that the environment is that of the process and not of the next one with its pid.
            if identity is not None and wanted in variables and identify(identity.pid) == identity:
                found.append(identity)
    return found


def end_all(processes: Sequence[Identity], *, patience_seconds: float) -> None:
    """Ask processes to end, wait, and kill those that do not."""
    for number, patience in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, _KILL_SECONDS)):
        for process in processes:
            send(process, number)
        deadline = time.monotonic() + patience
        while any(identify(process.pid) == process for process in processes) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)


def send(process: Identity, number: signal.Signals) -> None:
    """Signal a process; nothing happens where it has ended, even if its pid is another's by now."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        # The descriptor holds on to one process: if the identity is right now, the signal goes to the right one.
        if identify(process.pid) == process:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def read_tail(path: Path, lines: int = _TAIL_LINES) -> str:
    """Return the last lines of a log, empty where there is none."""
    try:
        return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


class Child:
    """A child of the supervisor, with its output in a log.

    Args:
        name: as in logs and messages.
        command: what is run.
        log: where its output goes; started afresh each time.
        environ: its whole environment.
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
        """The process id while it runs, None before and after."""
        return self._process.pid if self._process is not None and self.running else None

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> int:
        """Start it; return its process id.

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
                    preexec_fn=partial(_die_with, os.getpid()),
                )
            except OSError as exc:
                raise SandboxError(f"{self._command[0]} cannot be run: {exc.strerror}") from exc
        self._identity = identify(self._process.pid)
        return self._process.pid

    async def wait(self) -> int:
        """Wait until it ends; return its exit code.

        Raises:
            SandboxError: it was never started.
        """
        if self._process is None:
            raise SandboxError(f"{self.name} was not started")
        return await self._process.wait()

    async def wait_until_ready(self, probe: Callable[[], Awaitable[bool]], *, seconds: float) -> None:
        """Wait until `probe` succeeds.

        Raises:
            SandboxError: it ended, or the time is up.
        """
        deadline = time.monotonic() + seconds
        while True:
            answered = await probe()
            # Looked at after the answer: another process may answer where ours could not listen.
            if not self.running:
                raise SandboxError(f"{self.name} ended while starting:\n{read_tail(self.log)}\nits log is {self.log}")
            if answered:
                return
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"{self.name} was not ready in {seconds:.0f} s:\n{read_tail(self.log)}\nits log is {self.log}"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self, *, patience_seconds: float = 10.0) -> None:
        """End it: SIGTERM, patience, SIGKILL to its whole session.

        Raises:
            SandboxError: it does not end even so.
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
                raise SandboxError(f"{self.name} ({process.pid}) does not end by SIGKILL") from exc


def _trace_ancestors(pid: int) -> set[int]:
    found = {pid}
    while pid > 1:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            break
        found.add(pid)
    return found


def _die_with(parent: int) -> None:
    # A supervisor that is killed must not leave an API server behind.
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        # It was killed before the line above, which then tells nothing.
        os._exit(1)
