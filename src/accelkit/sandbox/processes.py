"""Child processes: started with a log of their own, watched, and ended for certain.

A process is known by its pid together with the time it was started: pids are used again, and nothing but our own is
ever signalled.
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
from pathlib import Path

from accelkit.errors import SandboxError
from accelkit.sandbox.layout import ROOT_VARIABLE

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.1
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


def of_sandbox(root: Path) -> list[Identity]:
    """Return every process that carries this sandbox's root in its environment, ourselves excluded."""
    wanted = os.fsencode(f"{ROOT_VARIABLE}={root}")
    found: list[Identity] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0") and (identity := identify(int(entry.name))):
                found.append(identity)
    return found


def end_all(processes: Sequence[Identity], *, patience_seconds: float) -> None:
    """Ask processes to end, wait, and kill those that do not."""
    for number, patience in ((signal.SIGTERM, patience_seconds), (signal.SIGKILL, 5.0)):
        alive = [process for process in processes if identify(process.pid) == process]
        for process in alive:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)
        deadline = time.monotonic() + patience
        while any(identify(process.pid) == process for process in alive) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)


def tail(path: Path, lines: int = _TAIL_LINES) -> str:
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

    @property
    def pid(self) -> int:
        """The process id, 0 where it was never started."""
        return 0 if self._process is None else self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Start it.

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
                    preexec_fn=_die_with_parent,
                )
            except OSError as exc:
                raise SandboxError(f"{self._command[0]} cannot be run: {exc.strerror}") from exc

    async def wait(self) -> int:
        """Wait until it ends; return its exit code."""
        return 0 if self._process is None else await self._process.wait()

    async def ready(self, probe: Callable[[], Awaitable[bool]], *, seconds: float) -> None:
        """Wait until `probe` says yes.

        Raises:
            SandboxError: it ended, or the time is up.
        """
        deadline = time.monotonic() + seconds
        while not await probe():
            if not self.running:
                raise SandboxError(f"{self.name} ended while starting:\n{tail(self.log)}\nits log is {self.log}")
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"{self.name} was not ready in {seconds:.0f} s:\n{tail(self.log)}\nits log is {self.log}"
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def stop(self, *, patience_seconds: float = 10.0) -> None:
        """End it: SIGTERM, patience, SIGKILL to its whole session."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), patience_seconds)
        except TimeoutError:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _die_with_parent() -> None:
    # A supervisor that is killed must not leave an API server behind.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
